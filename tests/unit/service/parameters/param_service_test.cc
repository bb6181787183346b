// A ParamService of two machines: machine 0 is local, and the test plays machine 1 on the other ends of its
// connections.
#include "src/service/parameters/param_service.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

using Values = std::array<float, 2>;

class ParamServiceTest : public ::testing::Test {
 protected:
  explicit ParamServiceTest(uint32_t staleness = JobSettings::kUnbounded)
      : plugin_(loadBpsPlugin()), push_(connectPair(*plugin_)), answer_(connectPair(*plugin_)) {
    std::vector<ChunkService::Lane> lanes(2);
    lanes[1] = {std::move(push_.receiver), std::move(answer_.sender)};
    ParamSpec spec;
    spec.machines = 2;
    spec.local = 0;
    spec.endpoints = 4;
    spec.depth = 4;
    spec.maxChunkBytes = 64;
    spec.staleness = staleness;
    spec.store = std::make_shared<ParamStore>(2, 1);
    spec.nameOf = [](size_t machine) { return "rank " + std::to_string(machine); };
    service_ = valueOf(ParamService::create(std::move(spec), std::move(lanes)));
  }

  DataHeader header(CallOp op, uint32_t push, uint32_t count = 2) {
    DataHeader header;
    header.sequence = static_cast<uint16_t>(sent_++);
    header.first = true;
    header.call = {
        .number = 0, .count = 2, .type = static_cast<uint8_t>(DataType::kFloat32), .op = static_cast<uint8_t>(op)};
    header.part = ParamPart{.param = 0, .push = push, .offset = 0, .count = count};
    return header;
  }
  void send(const DataHeader& header, const void* data, size_t bytes) {
    std::vector<uint8_t> encoded(headerBytesWithClock(2));
    encoded.resize(encode(header, encoded));
    EXPECT_TRUE(finish(*push_.sender, valueOf(push_.sender->isend(encoded.data(), encoded.size(), nullptr))).ok());
    EXPECT_TRUE(finish(*push_.sender, valueOf(push_.sender->isend(const_cast<void*>(data), bytes, nullptr))).ok());
  }
  void send(CallOp op, uint32_t push, Values values = {}) {
    send(header(op, push), values.data(), carriesContribution(op) ? sizeof values : 0);
  }
  void offer(CallOp op, uint32_t push, Values& values) {
    const DataHeader local = header(op, push);
    --sent_;
    service_->offer({local.call, values.data(), values.data(), sizeof values, local.part});
  }
  // Steps the service until nothing has moved for a moment.
  void settle() {
    for (int idle = 0; idle < 200; ++idle)
      if (valueOf(service_->step())) idle = 0;
  }
  // Receives the next answer of machine 1.
  Values receive(ParamClock* clock = nullptr) {
    Values values{-1, -1};
    std::vector<uint8_t> bytes(headerBytesWithClock(2));
    const Request first = valueOf(answer_.receiver->irecv(bytes.data(), bytes.size(), nullptr));
    const Request second = valueOf(answer_.receiver->irecv(values.data(), sizeof values, nullptr));
    size_t size = 0;
    bool done = false;
    for (const Deadline deadline = Deadline::in(kTestTimeout); !done && !deadline.passed();) {
      (void)service_->step();
      if (size == 0) {
        const Completion completion = valueOf(answer_.receiver->test(first));
        if (completion.done) size = completion.bytes;
      } else {
        done = valueOf(answer_.receiver->test(second)).done;
      }
    }
    EXPECT_TRUE(done);
    bytes.resize(size);
    const DataHeader answer = valueOf(decodeDataHeader(bytes));
    if (clock != nullptr) *clock = answer.clock.value_or(ParamClock());
    return values;
  }
  std::string failure() {
    for (const Deadline deadline = Deadline::in(kTestTimeout); !deadline.passed();) {
      Result<bool> moved = service_->step();
      if (moved.ok()) continue;
      EXPECT_EQ(service_->failedMachine(), 1U);
      return moved.error().message();
    }
    return "none";
  }

  std::shared_ptr<net::Plugin> plugin_;
  CommPair push_, answer_;
  std::unique_ptr<ParamService> service_;
  uint64_t sent_ = 0;
};

TEST_F(ParamServiceTest, AnswersEachMachineByItself) {
  Values initial{1, 2}, own{10, 20};
  offer(CallOp::kParamSet, 0, initial);
  send(CallOp::kParamPushPull, 1, {100, 200});
  ParamClock clock;
  EXPECT_EQ(receive(&clock), (Values{101, 202})) << "without a push of machine 0";
  EXPECT_EQ(clock.machines, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(clock.slowest, 0U);
  offer(CallOp::kParamPushPull, 1, own);
  settle();
  EXPECT_EQ(own, (Values{111, 222}));
  send(CallOp::kParamPull, 0);
  EXPECT_EQ(receive(), (Values{111, 222}));
  EXPECT_EQ(service_->retired(), 2U);
  EXPECT_TRUE(service_->drained());
}

TEST_F(ParamServiceTest, BlamesAMachineThatBreaksTheProtocol) {
  Values initial{1, 2};
  offer(CallOp::kParamSet, 0, initial);
  settle();
  send(CallOp::kParamPush, 2, {1, 1});
  EXPECT_NE(failure().find("push 2 to element 0 of parameter 0 came where push 1 was due"), std::string::npos);
  EXPECT_TRUE(service_->step().ok()) << "the service goes on without the machine";
}

TEST_F(ParamServiceTest, RefusesChunksOfAnotherSize) {
  const std::array<float, 20> data{};
  send(header(CallOp::kParamSet, 0, 20), data.data(), 64);
  EXPECT_NE(failure().find("a chunk of 64 bytes for 20 elements"), std::string::npos);
}

TEST_F(ParamServiceTest, RefusesASumAndAPushToAnUnknownParameter) {
  DataHeader sum = header(CallOp::kSum, 0);
  sum.part.reset();
  const Values data{};
  send(sum, data.data(), sizeof data);
  EXPECT_NE(failure().find("this communicator keeps parameters"), std::string::npos);
}

TEST_F(ParamServiceTest, RefusesAPushToAnUnknownParameter) {
  send(CallOp::kParamPush, 1, {1, 1});
  EXPECT_NE(failure().find("parameter 0 has no part at element 0"), std::string::npos);
}

TEST_F(ParamServiceTest, TellsWhichBarrierEachMachineHasReached) {
  const auto ask = [this](uint32_t barrier) {
    send(header(CallOp::kParamReach, barrier, 0), nullptr, 0);
    ParamClock clock;
    receive(&clock);
    return clock.machines;
  };
  using Barriers = std::vector<uint32_t>;
  EXPECT_EQ(ask(1), (Barriers{0, 1}));
  Values none{};
  DataHeader local = header(CallOp::kParamReach, 1, 0);
  --sent_;
  service_->offer({local.call, none.data(), none.data(), 0, local.part});
  settle();
  EXPECT_EQ(ask(1), (Barriers{1, 1}));
  EXPECT_EQ(ask(2), (Barriers{1, 2}));
  local = header(CallOp::kParamSettled, 0, 0);
  --sent_;
  local.part->machine = 1;
  service_->offer({local.call, none.data(), none.data(), 0, local.part});
  ParamClock clock;
  local = header(CallOp::kParamReach, 2, 0);
  --sent_;
  service_->offer({local.call, none.data(), none.data(), 0, local.part, [&](const ParamClock& c) { clock = c; }});
  settle();
  EXPECT_EQ(clock.machines, (Barriers{2, UINT32_MAX})) << "a settled machine does not count";
}

TEST_F(ParamServiceTest, RefusesABarrierOutOfOrder) {
  send(header(CallOp::kParamReach, 2, 0), nullptr, 0);
  EXPECT_NE(failure().find("barrier 2 came after barrier 0"), std::string::npos);
}

TEST_F(ParamServiceTest, RefusesTheLossOfItself) {
  DataHeader settled = header(CallOp::kParamSettled, 0, 0);
  settled.part->machine = 0;
  send(settled, nullptr, 0);
  EXPECT_NE(failure().find("machine 0 is not lost"), std::string::npos);
}

TEST_F(ParamServiceTest, AMachineLeavesWhenAllDo) {
  Values none{};
  send(header(CallOp::kParamLeave, 0, 0), nullptr, 0);
  settle();
  EXPECT_EQ(service_->counters().queued, 1U);
  const DataHeader local = header(CallOp::kParamLeave, 0, 0);
  service_->offer({local.call, none.data(), none.data(), 0, local.part});
  settle();
  EXPECT_EQ(service_->counters().queued, 0U);
  EXPECT_EQ(service_->retired(), 1U);
}

// Machines take over parts of a lost owner.
class TakeoverTest : public ParamServiceTest {
 protected:
  explicit TakeoverTest(uint32_t staleness = JobSettings::kUnbounded) : ParamServiceTest(staleness) {}

  // Machine 1 sends its copy, which contains this many pushes of each machine.
  void restore(Values copy, std::vector<uint32_t> pushes) {
    DataHeader restoring = header(CallOp::kParamRestore, 0);
    restoring.clock = clockOf(std::move(pushes));
    send(restoring, copy.data(), sizeof copy);
  }
  void restored(uint32_t lost = 3) {
    DataHeader restored = header(CallOp::kParamRestored, 0, 0);
    restored.part->machine = lost;
    send(restored, nullptr, 0);
  }
  // Machine 0 sends its copy.
  void offerCopy(Values& copy, std::vector<uint32_t> pushes) {
    const DataHeader local = header(CallOp::kParamRestore, 0);
    --sent_;
    service_->offer({local.call, copy.data(), copy.data(), sizeof copy, local.part, {}, clockOf(std::move(pushes))});
  }
  void offerRestored(uint32_t lost = 3) {
    DataHeader local = header(CallOp::kParamRestored, 0, 0);
    local.part->machine = lost;
    --sent_;
    service_->offer({local.call, nullptr, nullptr, 0, local.part});
  }
  static ParamClock clockOf(std::vector<uint32_t> pushes) {
    ParamClock clock;
    for (const uint32_t each : pushes) clock.version += each;
    clock.machines = std::move(pushes);
    return clock;
  }
};

TEST_F(TakeoverTest, ARequestWaitsUntilAllMachinesHaveSentTheirCopies) {
  service_->beginTakeover(3);
  restore({10, 10}, {1, 0});
  receive();
  restored();
  receive();
  send(CallOp::kParamPushPull, 1, {100, 100});
  settle();
  EXPECT_EQ(service_->counters().rounds, 0U) << "machine 0 has the newer copy";
  Values newer{12, 12};
  offerCopy(newer, {2, 0});
  settle();
  EXPECT_EQ(service_->counters().rounds, 0U) << "more copies may come";
  offerRestored();
  EXPECT_EQ(receive(), (Values{112, 112}));
}

TEST_F(TakeoverTest, ARequestDoesNotWaitForALaterTakeover) {
  Values copy{1, 1};
  offerCopy(copy, {1, 0});
  offerRestored();
  restore(copy, {1, 0});
  receive();
  restored();
  receive();
  service_->beginTakeover(2);
  offerRestored(2);
  settle();
  EXPECT_EQ(service_->retired(), 3U);
  send(CallOp::kParamPushPull, 1, {2, 2});  // machine 1 will send its copies after this push
  EXPECT_EQ(receive(), (Values{3, 3}));
}

TEST_F(TakeoverTest, ANumberOfTakeoversIsNotEnough) {
  service_->beginTakeover(3);
  service_->beginTakeover(2);
  Values copy{1, 1};
  offerCopy(copy, {1, 0});
  offerRestored(2);
  restore(copy, {1, 0});
  receive();
  restored(3);
  receive();
  send(CallOp::kParamPushPull, 1, {2, 2});
  settle();
  EXPECT_EQ(service_->counters().rounds, 0U) << "machine 0 may have a copy of a part of endpoint 3";
  offerRestored(3);
  EXPECT_EQ(receive(), (Values{3, 3}));
}

TEST_F(TakeoverTest, KnowsWhoIsLostElsewhere) {
  EXPECT_EQ(service_->lostElsewhere(), std::nullopt);
  restored(2);
  receive();
  EXPECT_EQ(service_->lostElsewhere(), 2U);
  service_->beginTakeover(2);
  EXPECT_EQ(service_->lostElsewhere(), std::nullopt);
  restored(4);
  EXPECT_NE(failure().find("there is no endpoint 4"), std::string::npos);
}

TEST_F(TakeoverTest, ALostMachineSendsNoCopies) {
  Values copy{1, 1}, change{2, 2};
  offerCopy(copy, {1, 0});
  offerRestored();
  offer(CallOp::kParamPushPull, 2, change);
  settle();
  EXPECT_EQ(service_->retired(), 2U);
  service_->lose(1);
  settle();
  EXPECT_EQ(service_->retired(), 3U);
  EXPECT_EQ(change, (Values{3, 3}));
}

// With a staleness of 1.
class BoundedTakeoverTest : public TakeoverTest {
 protected:
  BoundedTakeoverTest() : TakeoverTest(1) {}
};

TEST_F(BoundedTakeoverTest, NoAnswerWaitsForASlowMachineMeanwhile) {
  Values initial{0, 0}, first{}, second{};
  offer(CallOp::kParamSet, 0, initial);
  for (uint32_t push = 1; push <= 2; ++push) send(CallOp::kParamPushPull, push, {1, 1});
  settle();
  EXPECT_EQ(service_->counters().queued, 1U) << "two pushes ahead";
  service_->beginTakeover(3);
  settle();
  EXPECT_EQ(service_->counters().queued, 0U);
  for (int answers = 0; answers < 2; ++answers) receive();
  offerRestored();
  restored();
  receive();
  send(CallOp::kParamPushPull, 3, {1, 1});
  settle();
  EXPECT_EQ(service_->counters().queued, 1U) << "the takeover is over";
  offer(CallOp::kParamPushPull, 1, first);
  offer(CallOp::kParamPushPull, 2, second);
  EXPECT_EQ(receive(), (Values{3, 3}));
}

// With a staleness of 1.
class BoundedParamServiceTest : public ParamServiceTest {
 protected:
  BoundedParamServiceTest() : ParamServiceTest(1) {}
};

TEST_F(BoundedParamServiceTest, APushWaitsForTheSlowestMachine) {
  Values initial{0, 0}, own{1, 1};
  offer(CallOp::kParamSet, 0, initial);
  send(CallOp::kParamPushPull, 1, {10, 10});
  EXPECT_EQ(receive(), (Values{10, 10})) << "one push ahead";
  send(CallOp::kParamPushPull, 2, {10, 10});
  settle();
  EXPECT_EQ(service_->counters().queued, 1U) << "two pushes ahead";
  std::vector<PeerWait> waits;
  service_->addPeerWaits(waits);
  EXPECT_TRUE(waits.empty()) << "the local machine is no peer";
  offer(CallOp::kParamPushPull, 1, own);
  EXPECT_EQ(receive(), (Values{21, 21}));
}

TEST_F(BoundedParamServiceTest, NoPushWaitsForALostMachine) {
  Values initial{0, 0}, own{1, 1};
  offer(CallOp::kParamSet, 0, initial);
  for (uint32_t push = 1; push <= 2; ++push) offer(CallOp::kParamPushPull, push, own);
  settle();
  EXPECT_EQ(service_->retired(), 2U);
  service_->lose(1);
  settle();
  EXPECT_EQ(service_->retired(), 3U);
}

}  // namespace
}  // namespace bps::test
