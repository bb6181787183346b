// Tests SumService, which receives and validates the contributions (pushes) of other machines. The service receives
// pushes only while it has a chunk of its own machine to add.
#include "src/service/sum_service.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

class SumServiceTest : public ::testing::Test {
 protected:
  explicit SumServiceTest(Carrier carrier = Carrier::kTcp, size_t maxChunkBytes = 64)
      : plugin_(loadBpsPlugin(carrier)), push_(connectPair(*plugin_)), answer_(connectPair(*plugin_)) {
    std::vector<SumService::Lane> lanes(2);
    lanes[1] = {std::move(push_.receiver), std::move(answer_.sender)};
    ServiceSpec spec;
    spec.machines = 2;
    spec.local = 0;
    spec.depth = 4;
    spec.maxChunkBytes = maxChunkBytes;
    spec.ranks = 2;
    spec.nameOf = [](size_t machine) { return "rank " + std::to_string(machine); };
    service_ = valueOf(SumService::create(std::move(spec), std::move(lanes)));
  }

  // Returns true if the service waits for a push of the other machine.
  bool wanted() {
    std::vector<bool> each;
    service_->forEachComm([&](net::Comm& comm) { each.push_back(comm.needed()); });
    return each.front();
  }
  void push(const DataHeader& header, size_t payload) {
    DataHeaderBytes bytes;
    std::array<uint8_t, 64> data{};
    const float value = 2;
    std::memcpy(data.data(), &value, sizeof value);
    const size_t size = encode(header, bytes);
    EXPECT_TRUE(finish(*push_.sender, valueOf(push_.sender->isend(bytes.data(), size, nullptr))).ok());
    EXPECT_TRUE(finish(*push_.sender, valueOf(push_.sender->isend(data.data(), payload, nullptr))).ok());
  }
  DataHeader header(uint16_t chunk, bool first) const { return {.sequence = chunk, .first = first, .call = call_}; }
  void offer() { service_->offer({call_, &own_, &sum_, sizeof own_}); }
  // Steps the service until it fails. Returns the error, for which the service must blame the other machine.
  std::string failure() {
    for (const Deadline deadline = Deadline::in(kTestTimeout); !deadline.passed();) {
      Result<bool> moved = service_->step();
      if (moved.ok()) continue;
      EXPECT_EQ(service_->failedMachine(), 1U);
      return moved.error().message();
    }
    return "none";
  }

  const CallInfo call_{.number = 0, .count = 1, .type = 7};
  float own_ = 1, sum_ = 0;
  std::shared_ptr<net::Plugin> plugin_;
  CommPair push_, answer_;
  std::unique_ptr<SumService> service_;
};

TEST_F(SumServiceTest, WantsPushesFromItsOwnChunkToTheSum) {
  EXPECT_FALSE(wanted());
  push(header(0, true), sizeof(float));
  offer();
  EXPECT_TRUE(wanted());
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (service_->retired() == 0 && !deadline.passed()) EXPECT_TRUE(service_->step().ok());
  EXPECT_EQ(sum_, 3.0F);
  EXPECT_FALSE(wanted());
}

// Tests a sum that is larger than the buffer of a connection.
class LargeSumTest : public SumServiceTest {
 protected:
  static constexpr size_t kCount = size_t{1} << 20;
  LargeSumTest() : SumServiceTest(Carrier::kMemory, kCount * sizeof(float)) {}

  // Steps the service until done() returns true.
  template <class F>
  void moveUntil(F done) {
    const Deadline deadline = Deadline::in(kTestTimeout);
    while (!done() && !deadline.passed()) EXPECT_TRUE(service_->step().ok());
  }
};

TEST_F(LargeSumTest, IsSentFromTheTargetAndRetiredAfterTheAnswer) {
  const std::vector<float> own(kCount, 1), other(kCount, 2);
  std::vector<float> sum(kCount), answer(kCount);
  DataHeaderBytes bytes;
  const CallInfo call{.number = 0, .count = kCount, .type = 7};
  const size_t size = encode({.first = true, .call = call}, bytes);
  EXPECT_TRUE(finish(*push_.sender, valueOf(push_.sender->isend(bytes.data(), size, nullptr))).ok());
  const Request pushed = valueOf(push_.sender->isend(other.data(), kCount * sizeof(float), nullptr));
  service_->offer({call, own.data(), sum.data(), kCount * sizeof(float)});
  moveUntil([&] { return valueOf(push_.sender->test(pushed)).done; });
  moveUntil([&] { return sum.back() == 3; });
  EXPECT_EQ(service_->retired(), 0U);

  EXPECT_TRUE(finish(*answer_.receiver, valueOf(answer_.receiver->irecv(bytes.data(), bytes.size(), nullptr))).ok());
  const Request answered = valueOf(answer_.receiver->irecv(answer.data(), kCount * sizeof(float), nullptr));
  moveUntil([&] { return valueOf(answer_.receiver->test(answered)).done; });
  moveUntil([&] { return service_->retired() == 1; });
  EXPECT_EQ(answer, std::vector<float>(kCount, 3));
}

// Tests the service's error if two machines disagree on a call.
class ComparingTest : public SumServiceTest {
 protected:
  // Steps the service and returns its error. Returns "nothing" if there is no error after 2000 steps.
  std::string errorText() {
    for (int i = 0; i < 2000; ++i) {
      Result<bool> moved = service_->step();
      if (moved.ok()) continue;
      EXPECT_FALSE(service_->failedMachine());
      EXPECT_EQ(moved.error().code(), Code::kInvalidUsage);
      return moved.error().message();
    }
    return "nothing";
  }
  void pushCall(const CallInfo& call) {
    push({.first = true, .call = call}, sizeof(float));
    const Deadline deadline = Deadline::in(kTestTimeout);
    while (!service_->active() && !deadline.passed()) EXPECT_TRUE(service_->step().ok());
  }
  CallInfo with(uint64_t number, uint64_t count, uint32_t history) const {
    CallInfo call = call_;
    call.number = number;
    call.count = count;
    call.history = history;
    return call;
  }
};

TEST_F(ComparingTest, TheSameCallWithTheSameHistoryIsCompared) {
  pushCall(with(3, 2, 7));
  service_->offer({with(3, 1, 7), &own_, &sum_, sizeof own_});
  EXPECT_EQ(errorText(),
            "ranks disagree: rank 0 called all-reduce #3 of 1 float32, sum, but rank 1 called all-reduce #3 of 2 "
            "float32, sum");
}

// If the numbers or histories of two calls differ, the service must not compare the calls, because the machines already
// disagree on an earlier call. Another owner reports that earlier call.
TEST_F(ComparingTest, DifferentNumbersOrHistoriesAreNotCompared) {
  pushCall(with(3, 2, 7));
  service_->offer({with(4, 1, 7), &own_, &sum_, sizeof own_});
  EXPECT_EQ(errorText(), "nothing");
}

TEST_F(ComparingTest, TheSameCallWithAnotherHistoryIsNotSummed) {
  pushCall(with(3, 1, 8));
  service_->offer({with(3, 1, 7), &own_, &sum_, sizeof own_});
  EXPECT_EQ(errorText(), "nothing");
  EXPECT_EQ(sum_, 0);
}

TEST_F(SumServiceTest, ChunkOutOfOrderIsAnError) {
  push(header(0, true), 4);
  push(header(2, false), 4);
  offer();
  EXPECT_EQ(failure(), "received chunk 2 instead of chunk 1 (modulo 65536)");
}

TEST_F(SumServiceTest, ChunkWithoutCallIsAnError) {
  push(header(0, false), 4);
  offer();
  EXPECT_EQ(failure(), "the first chunk has no call information");
}

TEST_F(SumServiceTest, PartOfAnElementIsAnError) {
  push(header(0, true), 4);
  push(header(1, false), 6);
  offer();
  EXPECT_EQ(failure(), "chunk 1 of 6 bytes is not a whole number of elements");
}

}  // namespace
}  // namespace bps::test
