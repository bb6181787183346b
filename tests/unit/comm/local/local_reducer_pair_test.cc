// Tests LocalReducer with two ranks of one machine that share a local ring. A slot must not be used again before the
// slower rank is done with it. An error must name the rank that has left. A sleeping rank must wake if it can continue.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <vector>

#include "src/comm/local/local_reducer.h"
#include "src/comm/local/machine/machine_plan.h"

namespace bps::test {
namespace {

constexpr size_t kSlots = 4, kCount = 256, kChunkBytes = kCount * 4;  // kCount is in elements (float32)
constexpr size_t kSlotBytes = 1U << 20;
constexpr uint8_t kFloat32 = 7;

// User buffers whose contributions become ready when the test allows it. Contributions in GPU memory also become ready
// late.
class SlowBuffers final : public ChunkBuffers {
 public:
  size_t readyBelow = SIZE_MAX;

  bool ready(const Collective&, size_t index) const override { return index < readyBelow; }
  ChunkView view(const Collective& call, size_t index) const override { return user_.view(call, index); }
  void finished(Collective& call, size_t index) override { user_.finished(call, index); }

 private:
  UserBuffers user_;
};

// A rank, and the call that it makes.
struct Rank {
  SlowBuffers buffers;
  Collective call;
  std::vector<float> send, recv;
  std::unique_ptr<LocalReducer> reducer;

  void makeCall(size_t chunks, float value, size_t chunkBytes = kChunkBytes) {
    call = Collective();
    send.assign(chunks * chunkBytes / sizeof(float), value);
    recv.assign(send.size(), 0);
    call.call.number = 3;
    call.call.count = send.size();
    call.call.type = kFloat32;
    call.send = reinterpret_cast<const uint8_t*>(send.data());
    call.recv = reinterpret_cast<uint8_t*>(recv.data());
    for (size_t i = 0; i < chunks; ++i) {
      ChunkRef chunk;
      chunk.offset = i * chunkBytes;
      chunk.bytes = chunkBytes;
      call.chunks.push_back(chunk);
    }
    call.remaining = chunks;
  }
  size_t finished() const { return call.chunks.size() - call.remaining; }
};

class LocalReducerPairTest : public testing::Test {
 protected:
  LocalReducerPairTest() {
    roster_.ranks = {{"a", "hostA", 1, 0, 0}, {"a", "hostA", 2, 0, 1}};
    roster_.machines = {{{0, 1}, 0}};
    env_.topoFile = "cpu";
    for (int rank = 0; rank < 2; ++rank) bells_.push_back(Doorbell::create().value());
    for (uint32_t rank = 0; rank < 2; ++rank) makeReducer(rank);
  }
  void makeReducer(uint32_t rank) {
    auto plan = MachinePlan::make(makeMachineSpec(env_, 2, 0).value()).value();
    LocalRingShape shape{2, kSlots, kSlotBytes, static_cast<uint32_t>(plan->program.stages()), 0};
    shape.counters = static_cast<uint32_t>(LinkByteCounters::size(plan->topology));
    if (rank == 0) memory_ = std::make_unique<LocalRing>(LocalRing::create(shape).value());
    std::vector<Doorbell> bells;
    for (const Doorbell& bell : bells_) bells.emplace_back(copy(bell.fd()));
    LocalReducerSpec spec;
    spec.roster = &roster_;
    spec.rank = rank;
    spec.env = &env_;
    spec.own = &ranks_[rank].buffers;
    ranks_[rank].reducer = std::make_unique<LocalReducer>(
        std::move(spec), std::move(plan), LocalRing::attach(shape, copy(memory_->fd())).value(), std::move(bells));
  }
  static UniqueFd copy(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }
  LocalReducer& reducer(size_t rank) { return *ranks_[rank].reducer; }
  void submit(size_t rank, size_t chunks, size_t chunkBytes = kChunkBytes) {
    ranks_[rank].makeCall(chunks, static_cast<float>(rank + 1), chunkBytes);
    reducer(rank).submit(ranks_[rank].call);
  }
  void step(size_t rank, int turns = 50) {
    for (; turns > 0; --turns) {
      const Result<bool> moved = reducer(rank).step();
      ASSERT_TRUE(moved.ok()) << moved.error().message();
    }
  }
  // Steps the two ranks alternately, often enough to finish all calls.
  void finishAll() {
    for (int turn = 0; turn < 50; ++turn)
      for (size_t rank = 0; rank < 2; ++rank) step(rank, 1);
  }
  std::string errorOfStep(size_t rank) {
    for (int turn = 0; turn < 50; ++turn)
      if (const Result<bool> moved = reducer(rank).step(); !moved.ok()) return moved.error().message();
    return "";
  }
  bool rung(size_t rank) {
    pollfd poll{bells_[rank].fd(), POLLIN, 0};
    const bool rang = ::poll(&poll, 1, 0) == 1;
    bells_[rank].clear();
    return rang;
  }
  size_t lastStage() const { return memory_->shape().stages - 1; }

  Roster roster_;
  Env env_;
  std::vector<Doorbell> bells_;
  std::unique_ptr<LocalRing> memory_;  // the test's own mapping of the ring
  Rank ranks_[2];
};

TEST_F(LocalReducerPairTest, SumsTheBuffersOfBothRanks) {
  for (size_t rank = 0; rank < 2; ++rank) submit(rank, 10);
  finishAll();
  for (const Rank& rank : ranks_) {
    EXPECT_EQ(rank.call.remaining, 0U);
    EXPECT_EQ(rank.recv, std::vector<float>(10 * kCount, 3));
  }
  EXPECT_TRUE(reducer(0).allRanksFinished());
  EXPECT_TRUE(reducer(1).allRanksFinished());
}

TEST_F(LocalReducerPairTest, ARankFillsNoMoreSlotsThanTheRingHasUntilTheOtherBegins) {
  submit(0, 10);
  step(0);
  EXPECT_EQ(memory_->done(0, 0).load(), kSlots);
  EXPECT_EQ(ranks_[0].finished(), 0U) << "the other rank has brought nothing";
}

TEST_F(LocalReducerPairTest, ASlotIsReusedOnlyAfterTheSlowestRankHasFinishedItsChunk) {
  for (size_t rank = 0; rank < 2; ++rank) submit(rank, 20);
  for (int turn = 0; turn < 100; ++turn) {
    step(0, 3);  // rank 0 makes more steps than rank 1
    if (turn % 4 == 0) step(1, 1);
    const uint64_t slowest = memory_->doneByAll(lastStage());
    for (uint32_t rank = 0; rank < 2; ++rank) EXPECT_LE(memory_->done(rank, 0).load(), slowest + kSlots);
  }
  finishAll();
  EXPECT_EQ(ranks_[1].recv, std::vector<float>(20 * kCount, 3));
}

TEST_F(LocalReducerPairTest, ARankThatLeftBeforeItContributedIsNamed) {
  submit(0, 2);
  step(0);
  reducer(1).leave();
  EXPECT_TRUE(rung(0)) << "the others are woken";
  EXPECT_EQ(errorOfStep(0),
            "rank 1 (hostA, pid 2) has left the communicator, all-reduce #3 of 512 float32, sum cannot complete");
}

TEST_F(LocalReducerPairTest, ARankThatLeftAfterItContributedIsNoFailure) {
  ranks_[0].buffers.readyBelow = 1;
  for (size_t rank = 0; rank < 2; ++rank) submit(rank, 2);
  step(1);
  reducer(1).leave();
  EXPECT_EQ(errorOfStep(0), "") << "this rank's own contribution is missing";
}

TEST_F(LocalReducerPairTest, AContributionCountsOnlyWhenItIsReady) {
  ranks_[0].buffers.readyBelow = 1;
  for (size_t rank = 0; rank < 2; ++rank) submit(rank, 2);
  finishAll();
  EXPECT_EQ(memory_->rankState(0).submitted.load(), 1U);
  EXPECT_EQ(ranks_[1].finished(), 1U);
  ranks_[0].buffers.readyBelow = 2;
  finishAll();
  EXPECT_EQ(ranks_[1].finished(), 2U);
}

TEST_F(LocalReducerPairTest, RanksThatDisagreeOnACallAreBothNamed) {
  submit(0, 2);
  ranks_[1].makeCall(2, 2);
  ranks_[1].call.call.op = static_cast<uint8_t>(CallOp::kMax);
  reducer(1).submit(ranks_[1].call);
  reducer(1).step().ok();
  std::string error = errorOfStep(0);
  for (const char* part : {"rank 0 (hostA, pid 1)", "rank 1 (hostA, pid 2)", "sum", "max"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST_F(LocalReducerPairTest, ARankDoesNotSleepWhileItCanGoOn) {
  EXPECT_TRUE(reducer(0).prepareToSleep());
  reducer(0).endSleep();
  submit(0, 1);
  EXPECT_FALSE(reducer(0).prepareToSleep()) << "its first stage can run";
  reducer(0).endSleep();
  step(0);
  EXPECT_TRUE(reducer(0).prepareToSleep());
  reducer(0).endSleep();
}

TEST_F(LocalReducerPairTest, ASleepingRankIsWokenInTheStepAfterWhichItCanGoOn) {
  for (const size_t bytes : {kChunkBytes, kSlotBytes}) {
    submit(0, 1, bytes);
    step(0);
    ASSERT_TRUE(reducer(0).prepareToSleep());
    submit(1, 1, bytes);
    EXPECT_FALSE(rung(0)) << "the other rank has done no stage yet";
    step(1, 1);
    EXPECT_TRUE(rung(0)) << bytes << " bytes";
    reducer(0).endSleep();
    finishAll();
    EXPECT_EQ(ranks_[0].call.remaining, 0U);
  }
}

TEST_F(LocalReducerPairTest, ASleepingRankIsNotWokenForWhatItCannotDo) {
  ASSERT_TRUE(reducer(0).prepareToSleep());
  submit(1, 1);
  step(1);
  EXPECT_FALSE(rung(0)) << "this rank has not called yet";
}

TEST_F(LocalReducerPairTest, ARankThatIsAwakeIsNotRung) {
  submit(0, 1);
  step(0);
  EXPECT_TRUE(reducer(0).prepareToSleep());
  reducer(0).endSleep();
  submit(1, 1);
  step(1);
  EXPECT_FALSE(rung(0));
}

}  // namespace
}  // namespace bps::test
