// Tests a LocalReducer whose peer writes arbitrary counters into the memory that they share. The test acts as the peer.
#include "src/comm/local/local_reducer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/comm/local/machine/machine_plan.h"

namespace bps {
namespace {

// The LocalReducer of rank 1, on a machine with two ranks, and a call with several chunks.
class Pair {
 public:
  static constexpr size_t kChunks = 40, kSlots = 8;

  Pair() {
    roster_.ranks = {{"a", "hostA", 1, 0, 0}, {"a", "hostA", 2, 0, 1}};
    roster_.machines = {{{0, 1}, 0}};
    env_.topoFile = "cpu";
    auto plan = MachinePlan::make(makeMachineSpec(env_, 2, 0).value()).value();
    LocalRingShape shape{2, kSlots, 4096, static_cast<uint32_t>(plan->program.stages()), 0};
    shape.counters = static_cast<uint32_t>(LinkByteCounters::size(plan->topology));
    LocalRing ring = LocalRing::create(shape).value();
    other_ = std::make_unique<LocalRing>(LocalRing::attach(shape, UniqueFd(::dup(ring.fd()))).value());
    LocalReducerSpec spec;
    spec.roster = &roster_;
    spec.rank = 1;
    spec.env = &env_;
    std::vector<Doorbell> bells;
    for (int i = 0; i < 2; ++i) bells.push_back(Doorbell::create().value());
    group_ = std::make_unique<LocalReducer>(std::move(spec), std::move(plan), std::move(ring), std::move(bells));
    call_.call.count = kChunks * 1024;
    call_.send = call_.recv = buffer_.data();
    for (size_t i = 0; i < kChunks; ++i) {
      ChunkRef chunk;
      chunk.offset = i * 1024;
      chunk.bytes = 1024;
      call_.chunks.push_back(chunk);
    }
    call_.remaining = kChunks;
  }
  LocalReducer& group() { return *group_; }
  Collective& call() { return call_; }
  LocalRing& memory() { return *other_; }

 private:
  Roster roster_;
  Env env_;
  std::vector<uint8_t> buffer_ = std::vector<uint8_t>(kChunks * 1024);
  Collective call_;
  std::unique_ptr<LocalRing> other_;
  std::unique_ptr<LocalReducer> group_;
};

TEST(LocalReducer, IgnoresItsOwnCountersOverwrittenByAPeer) {
  Pair pair;
  for (std::atomic<uint64_t>* number : {&pair.memory().rankState(1).submitted, &pair.memory().rankState(1).awaited,
                                        &pair.memory().rankState(1).published, &pair.memory().done(1, 0)})
    number->store(1000);
  EXPECT_TRUE(pair.group().step().ok()) << "there is no call yet";
  pair.group().submit(pair.call());
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(pair.group().step().ok());
  EXPECT_EQ(pair.call().remaining, Pair::kChunks) << "the other rank has contributed nothing";
}

TEST(LocalReducer, ImpossibleCounterIsAnErrorThatNamesTheRank) {
  for (const uint32_t fromLast :
       {1U, 2U}) {  // a small chunk waits for other ranks only for its slot and before its last stage
    Pair pair;
    const size_t stage = pair.memory().shape().stages - fromLast;
    pair.group().submit(pair.call());
    EXPECT_TRUE(pair.group().step().ok());
    pair.memory().done(0, stage).store(Pair::kSlots + 1);
    Result<bool> step = pair.group().step();
    for (size_t turn = 0; turn < 2 * Pair::kSlots && step.ok(); ++turn) step = pair.group().step();
    ASSERT_FALSE(step.ok()) << stage;
    const std::string text = step.error().message();
    EXPECT_NE(text.find("rank 0 (hostA, pid 1) reports finished chunks that it cannot have begun"), std::string::npos)
        << text;
    EXPECT_EQ(pair.call().remaining, Pair::kChunks);
  }
}

TEST(LocalRing, RejectsMemoryOfUnsealedSize) {
  const LocalRingShape shape{2, 8, 4096, 3, 0};
  const LocalRing ring = LocalRing::create(shape).value();
  EXPECT_NE(::ftruncate(ring.fd(), 0), 0);
  UniqueFd loose(::memfd_create("loose", MFD_CLOEXEC));
  struct stat status {};
  ASSERT_EQ(::fstat(ring.fd(), &status), 0);
  ASSERT_EQ(::ftruncate(loose.get(), status.st_size), 0);
  EXPECT_FALSE(LocalRing::attach(shape, std::move(loose)).ok());
}

}  // namespace
}  // namespace bps
