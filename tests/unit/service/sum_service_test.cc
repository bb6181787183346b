// A service asks for what the other machines push while it has a chunk of its own machine to sum it with, and believes
// none of it.
#include "src/service/sum_service.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

class SumServiceTest : public ::testing::Test {
 protected:
  SumServiceTest() {
    std::vector<SumService::Lane> lanes(2);
    lanes[1] = {std::move(push_.receiver), std::move(answer_.sender)};
    ServiceSpec spec;
    spec.machines = 2;
    spec.local = 0;
    spec.depth = 4;
    spec.maxChunkBytes = 64;
    spec.ranks = 2;
    spec.nameOf = [](size_t machine) { return "rank " + std::to_string(machine); };
    service_ = valueOf(SumService::create(std::move(spec), std::move(lanes)));
  }

  // Of the push that comes from the other machine.
  bool wanted() {
    std::vector<bool> each;
    service_->forEachComm([&](net::Comm& comm) { each.push_back(comm.wanted()); });
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
  DataHeader header(uint16_t chunk, bool first) const {
    return {.sequence = chunk, .first = first, .direct = false, .call = call_};
  }
  // Of the service, with what the other machine has pushed.
  std::string failure() {
    for (const Deadline deadline = Deadline::in(kPatience); !deadline.passed();) {
      Result<bool> moved = service_->step();
      if (moved.ok()) continue;
      EXPECT_EQ(service_->culprit(), 1U);
      return moved.error().message();
    }
    return "none";
  }

  const CallInfo call_{.number = 0, .count = 1, .type = 7};
  std::shared_ptr<net::Plugin> plugin_ = loadOurs(Carrier::kTcp);
  Pair push_ = connectPair(*plugin_), answer_ = connectPair(*plugin_);
  std::unique_ptr<SumService> service_;
};

TEST_F(SumServiceTest, WantsPushesWhenItsOwnChunkIsExpected) {
  EXPECT_FALSE(wanted());
  service_->expect();
  EXPECT_TRUE(wanted());
}

TEST_F(SumServiceTest, WantsPushesFromItsOwnChunkToTheSum) {
  EXPECT_FALSE(wanted());
  push(header(0, true), sizeof(float));
  const float own = 1;
  float sum = 0;
  service_->offer({call_, &own, &sum, sizeof own});
  EXPECT_TRUE(wanted());
  const Deadline deadline = Deadline::in(kPatience);
  while (service_->retired() == 0 && !deadline.passed()) EXPECT_TRUE(service_->step().ok());
  EXPECT_EQ(sum, 3.0F);
  EXPECT_FALSE(wanted());
}

TEST_F(SumServiceTest, AChunkOutOfOrderIsAnError) {
  push(header(0, true), 4);
  push(header(2, false), 4);
  service_->expect();
  EXPECT_EQ(failure(), "chunk 2 came where chunk 1 was due (modulo 65536)");
}

TEST_F(SumServiceTest, AChunkOfNoCallIsAnError) {
  push(header(0, false), 4);
  service_->expect();
  EXPECT_EQ(failure(), "the first chunk does not say to which call it belongs");
}

TEST_F(SumServiceTest, APartOfAnElementIsAnError) {
  push(header(0, true), 4);
  push(header(1, false), 6);
  service_->expect();
  EXPECT_EQ(failure(), "chunk 1 of 6 bytes is not whole elements");
}

}  // namespace
}  // namespace bps::test
