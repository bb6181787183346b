// Failures of ranks in the middle of an iteration, the end of reducers with calls in flight, and long runs.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>

#include "tests/inproc/reducer/harness.h"
#include "tests/support/own_process.h"

namespace bps::test {
namespace {

bpsReducerConfig_t separateBuckets() {
  bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
  config.bucketBytes = config.firstBucketBytes = 0;
  return config;
}

// Marks the parameters from the last to the first. Returns the first failure.
bpsResult_t markDownTo(const ReducerRank& reducer, size_t from, size_t to) {
  for (size_t i = from; i-- > to;)
    if (const bpsResult_t result = reducer.ready(i); result != bpsSuccess) return result;
  return bpsSuccess;
}

constexpr size_t kParameters = 8;
const Model kModel = floatModel(std::vector<size_t>(kParameters, 20000));

// After the first bucket, rank 2 calls `end`, and its reducer then waits until the other ranks have ended. These must
// get an error that says `text` from Finish, Wait and later calls.
void expectAllRanksEnd(const std::string& text, const std::function<void(ReducerJob&, ReducerRank&)>& end) {
  for (const size_t servers : {0, 2}) {
    ReducerJob job({3, servers, 2});
    std::atomic<int> ended{0};
    job.run([&](size_t rank) {
      ReducerRank reducer(job, rank, kModel, separateBuckets());
      reducer.begin(true);
      if (rank == 2) {
        EXPECT_EQ(markDownTo(reducer, kParameters, kParameters - 1), bpsSuccess);
        EXPECT_EQ(reducer.wait(kParameters - 1), bpsSuccess);
        end(job, reducer);
        while (ended < 2) std::this_thread::yield();
        return;
      }
      std::jthread waiter([&] { EXPECT_EQ(reducer.wait(0), bpsRemoteError); });
      (void)markDownTo(reducer, kParameters, 0);
      EXPECT_EQ(reducer.finish(), bpsRemoteError);
      EXPECT_TRUE(lastErrorSays("rank 2"));
      EXPECT_TRUE(lastErrorSays(text));
      waiter.join();
      EXPECT_EQ(reducer.ready(0), bpsRemoteError);
      EXPECT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsRemoteError);
      bpsResult_t state = bpsSuccess;
      for (const size_t comm : {0, 1}) {
        EXPECT_EQ(bpsCommGetAsyncError(job.at(comm, rank), &state), bpsSuccess);
        EXPECT_EQ(state, bpsRemoteError);
      }
      ++ended;
    });
  }
}

TEST(ReducerFailure, AnAbortedRankEndsTheIterationOnAllRanks) {
  expectAllRanksEnd("abort", [](ReducerJob& job, ReducerRank&) {
    for (const size_t comm : {0, 1}) EXPECT_EQ(bpsCommAbort(std::exchange(job.at(comm, 2), nullptr)), bpsSuccess);
  });
}

// Rank 2 goes on with its other communicator, but makes no call of the reducer any more.
TEST(ReducerFailure, TheFailureOfOneCommunicatorEndsAllOnAllRanks) {
  expectAllRanksEnd("abort",
                    [](ReducerJob& job, ReducerRank&) { EXPECT_EQ(bpsCommRevoke(job.at(0, 2), 0), bpsSuccess); });
}

TEST(ReducerFailure, AReducerDestroyedInTheMiddleOfAnIterationEndsAllRanks) {
  expectAllRanksEnd("the reducer was destroyed in the middle of an iteration",
                    [](ReducerJob&, ReducerRank& reducer) { reducer.destroy(); });
}

TEST(ReducerFailure, RanksThatDisagreeOnTheirBucketsGetAnError) {
  ReducerJob job({2});
  job.run([&](size_t rank) {
    const ReducerRank reducer(job, rank, floatModel({100, rank == 0 ? 50U : 51U, 100}), separateBuckets());
    ASSERT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsSuccess);
    (void)markDownTo(reducer, 3, 0);
    EXPECT_EQ(reducer.finish(), bpsInvalidUsage);
    EXPECT_TRUE(lastErrorSays("of 50 float32"));
    EXPECT_TRUE(lastErrorSays("of 51 float32"));
  });
}

TEST(ReducerFailure, ACommunicatorThatFailedBetweenIterationsIsReportedByBegin) {
  ReducerJob job({2});
  std::atomic<int> created{0};
  job.run([&](size_t rank) {
    const ReducerRank reducer(job, rank, floatModel({10}), separateBuckets());
    for (++created; created < 2;) std::this_thread::yield();
    if (rank == 1) {
      EXPECT_EQ(bpsCommRevoke(job.at(0, 1), 0), bpsSuccess);
      return;
    }
    for (bpsResult_t state = bpsSuccess; state == bpsSuccess; std::this_thread::yield())
      ASSERT_EQ(bpsCommGetAsyncError(job.at(0, 0), &state), bpsSuccess);
    EXPECT_EQ(bpsReducerBegin(reducer.get(), 0, nullptr), bpsSuccess) << "a local iteration needs no communicator";
    EXPECT_EQ(reducer.finish(), bpsSuccess);
    EXPECT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsRemoteError);
    EXPECT_TRUE(lastErrorSays("rank 1"));
  });
}

// Rank 0 does not call bpsReducerFinish after the failure.
TEST(ReducerFailure, CommunicatorsMayBeFreedBeforeTheReducerAfterAFailure) {
  ReducerJob job({2});
  std::atomic<bool> rank0Waited{false};
  job.run([&](size_t rank) {
    ReducerRank reducer(job, rank, floatModel({1000, 1000}), separateBuckets());
    reducer.begin(true);
    EXPECT_EQ(reducer.ready(1), bpsSuccess);
    EXPECT_EQ(reducer.wait(1), bpsSuccess);
    if (rank == 0) rank0Waited = true;
    if (rank == 1) {
      while (!rank0Waited) std::this_thread::yield();
      EXPECT_EQ(bpsCommRevoke(job.at(0, 1), 0), bpsSuccess);
      return;
    }
    (void)reducer.ready(0);
    EXPECT_EQ(reducer.wait(0), bpsRemoteError);
    auto destroyed = std::async([&] { return bpsCommDestroy(std::exchange(job.at(0, 0), nullptr)); });
    if (destroyed.wait_for(std::chrono::seconds(20)) != std::future_status::ready) std::abort();
    EXPECT_EQ(destroyed.get(), bpsRemoteError);
  });
}

// Rank 1 marks its parameters after rank 0 has begun to destroy its reducer.
TEST(ReducerFailure, DestroyWaitsForTheCallsInFlight) {
  const ReducerJob job({2});
  std::atomic<bool> marked{false};
  job.run([&](size_t rank) {
    ReducerRank reducer(job, rank, floatModel({1000, 1000}), separateBuckets());
    reducer.begin(true);
    for (size_t i = 0; i < 2; ++i) reducer.fill(i, static_cast<float>(rank));
    if (rank == 0) {
      EXPECT_EQ(markDownTo(reducer, 2, 0), bpsSuccess);
      marked = true;
      reducer.destroy();
      EXPECT_EQ(reducer.first(0), 0.5F);
      return;
    }
    while (!marked) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(markDownTo(reducer, 2, 0), bpsSuccess);
    EXPECT_EQ(reducer.finish(), bpsSuccess);
    EXPECT_EQ(reducer.first(1), 0.5F);
  });
}

struct Resources {
  size_t descriptors = openDescriptors(), threads = runningThreads();
  size_t heapBytes = ::mallinfo2().uordblks;
};

TEST(ReducerFailure, AThousandIterationsLeakNothing) {
  const ReducerJob job({2, 0, 2});
  std::vector<std::unique_ptr<ReducerRank>> reducers;
  for (size_t rank = 0; rank < 2; ++rank)
    reducers.push_back(std::make_unique<ReducerRank>(job, rank, floatModel({100, 200, 300, 400}), separateBuckets()));
  const auto iterate = [&](size_t iterations) {
    job.run([&](size_t rank) {
      ReducerRank& reducer = *reducers[rank];
      for (size_t iteration = 0; iteration < iterations; ++iteration) {
        const bool synchronize = iteration % 4 != 3;
        reducer.begin(synchronize);
        for (size_t i = 0; i < 4; ++i) {
          const bool used = (i + iteration + rank) % 4 != 0;
          if (!used && !synchronize) continue;
          ASSERT_EQ(used ? reducer.ready(i) : reducer.unused(i), bpsSuccess);
        }
        ASSERT_EQ(reducer.finish(), bpsSuccess) << bpsGetLastError(nullptr);
      }
    });
  };
  iterate(100);
  const Resources before;
  size_t growth = SIZE_MAX;  // the smallest of a few, because buffers of the communicators still grow now and then
  for (int time = 0; time < 4; ++time) {
    const Resources start;
    iterate(1000);
    const Resources end;
    growth = std::min(growth, end.heapBytes - std::min(start.heapBytes, end.heapBytes));
  }
  const Resources after;
  // An earlier test may still end a thread when the counts before are taken.
  EXPECT_LE(after.descriptors, before.descriptors);
  EXPECT_LE(after.threads, before.threads);
  EXPECT_LT(growth, 1000 * sizeof(void*)) << "bytes of the heap in 1000 iterations";
  reducers.clear();
  EXPECT_LE(runningThreads(), before.threads - 4) << "two reducers with two queues each";
}

}  // namespace
}  // namespace bps::test
