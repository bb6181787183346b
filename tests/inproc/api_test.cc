// Uses the public interface as a program does. All ranks are threads of this process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "bps/bps.h"
#include "bps/bps_ext.h"
#include "tests/support/own_process.h"

namespace {

const int kEnvironment = setenv("BPS_SOCKET_IFNAME", "lo", 1) | setenv("BPS_AUTH", "off", 1) |
                         setenv("BPS_TIMEOUT", "6", 1) | setenv("BPS_DEBUG", "NONE", 0);

// The n ranks of one communicator. During run() each rank has a thread.
class Ranks {
 public:
  explicit Ranks(int n) : comms(static_cast<size_t>(n)) {
    EXPECT_EQ(kEnvironment, 0);
    EXPECT_EQ(bpsCommInitAll(comms.data(), n, nullptr), bpsSuccess) << bpsGetLastError(nullptr);
  }
  ~Ranks() { destroy(); }
  void destroy() {
    for (bpsComm_t& comm : comms)
      if (comm != nullptr) bpsCommDestroy(std::exchange(comm, nullptr));
  }
  // Runs `body` on each rank, and gives each rank a separate stream. The process has only one
  // default stream, so a rank that waited for the default stream would also wait for the other
  // ranks' calls.
  void run(const std::function<void(int, bpsComm_t, bpsHostStream_t)>& body) {
    std::vector<std::jthread> threads;
    for (size_t r = 0; r < comms.size(); ++r) {
      threads.emplace_back([&, r] {
        bpsHostStream_t stream = nullptr;
        ASSERT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
        body(static_cast<int>(r), comms[r], stream);
        bpsHostStreamDestroy(stream);
      });
    }
    for (std::jthread& thread : threads) thread.join();
  }
  std::vector<bpsComm_t> comms;
};

// Returns the result of the stream's calls. `issued` is the result of the last bpsAllReduce. If
// another rank has already failed, bps refuses the call at once; otherwise the stream reports the
// failure.
bpsResult_t outcome(bpsResult_t issued, bpsHostStream_t stream) {
  const bpsResult_t done = bpsHostStreamSynchronize(stream);
  return issued == bpsSuccess ? done : issued;
}

// Returns the sum of (rank + 1) over all ranks.
float sumTo(int n) { return static_cast<float>(n * (n + 1) / 2); }

TEST(Api, ReportsVersionAndErrorStrings) {
  int version = 0;
  EXPECT_EQ(bpsGetVersion(&version), bpsSuccess);
  EXPECT_EQ(version, BPS_VERSION_CODE);
  EXPECT_EQ(bpsGetVersion(nullptr), bpsInvalidArgument);
  EXPECT_NE(std::strstr(bpsGetLastError(nullptr), "version is NULL"), nullptr);
  EXPECT_STREQ(bpsGetErrorString(static_cast<bpsResult_t>(bpsNumResults)), "unknown result code");
  EXPECT_STRNE(bpsGetErrorString(bpsRemoteError), bpsGetErrorString(bpsSystemError));
}

TEST(Api, CommunicatorReportsRankAndCount) {
  Ranks ranks(3);
  for (int r = 0; r < 3; ++r) {
    int count = 0, rank = -1, device = -1;
    EXPECT_EQ(bpsCommCount(ranks.comms[static_cast<size_t>(r)], &count), bpsSuccess);
    EXPECT_EQ(bpsCommUserRank(ranks.comms[static_cast<size_t>(r)], &rank), bpsSuccess);
    EXPECT_EQ(bpsCommCuDevice(ranks.comms[static_cast<size_t>(r)], &device), bpsSuccess);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(rank, r);
    EXPECT_EQ(device, 0);
  }
  char text[4096];
  EXPECT_EQ(bpsCommDescribe(ranks.comms[0], text, sizeof text), bpsSuccess);
  EXPECT_NE(std::strstr(text, "\"ranks\":3"), nullptr) << text;
  EXPECT_EQ(bpsCommDescribe(ranks.comms[0], text, 10), bpsInvalidArgument);
}

TEST(Api, PrioritiesHaveARange) {
  Ranks ranks(2);
  for (const int priority : {BPS_MAX_PRIORITY, 0})
    EXPECT_EQ(bpsCommSetPriority(ranks.comms[0], priority), bpsSuccess) << priority;
  for (const int priority : {-1, BPS_MAX_PRIORITY + 1})
    EXPECT_EQ(bpsCommSetPriority(ranks.comms[0], priority), bpsInvalidArgument) << priority;
  EXPECT_STREQ(bpsGetLastError(nullptr), "bpsCommSetPriority: priority is 8, expected 0 to 7");
  EXPECT_EQ(bpsCommSetPriority(nullptr, 0), bpsInvalidArgument);
}

TEST(Api, CompletesManyCallsOnSeveralStreamsAndCommunicators) {
  Ranks one(2), two(2);
  one.run([&](int r, bpsComm_t comm, bpsHostStream_t) {
    constexpr size_t kCalls = 40, kCount = 5000;
    std::vector<std::vector<float>> in(kCalls, std::vector<float>(kCount)), out = in;
    bpsHostStream_t streams[2];
    for (auto& each : streams) ASSERT_EQ(bpsHostStreamCreate(&each), bpsSuccess);
    for (size_t i = 0; i < kCalls; ++i) {
      std::fill(in[i].begin(), in[i].end(), static_cast<float>(static_cast<size_t>(r) + 1 + i));
      bpsComm_t which = i % 3 == 0 ? two.comms[static_cast<size_t>(r)] : comm;
      ASSERT_EQ(bpsAllReduce(in[i].data(), out[i].data(), kCount - i, bpsFloat32, bpsSum, which, streams[i % 2]),
                bpsSuccess);
    }
    for (auto& stream : streams) {
      ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
      ASSERT_EQ(bpsHostStreamQuery(stream), bpsSuccess);
      ASSERT_EQ(bpsHostStreamDestroy(stream), bpsSuccess);
      ASSERT_EQ(bpsHostStreamQuery(stream), bpsInvalidArgument);
    }
    for (size_t i = 0; i < kCalls; ++i) {
      EXPECT_EQ(out[i][0], static_cast<float>(3 + 2 * i));
      EXPECT_EQ(out[i][kCount - i - 1], static_cast<float>(3 + 2 * i));
      EXPECT_EQ(out[i][kCount - 1], i == 0 ? 3.0F : 0.0F);
    }
  });
}

TEST(Api, CallsOfOneStreamAreOrdered) {
  Ranks ranks(2);
  ranks.run([](int, bpsComm_t comm, bpsHostStream_t stream) {
    std::vector<float> a(70000, 1), b(70000, 0);
    for (int i = 0; i < 6; ++i) {  // each call reads the previous call's result: 2, 4, 8, ...
      ASSERT_EQ(bpsAllReduce(a.data(), b.data(), a.size(), bpsFloat32, bpsSum, comm, stream), bpsSuccess);
      ASSERT_EQ(bpsAllReduce(b.data(), a.data(), a.size(), bpsFloat32, bpsMax, comm, stream), bpsSuccess);
    }
    ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
    EXPECT_EQ(a[0], 64.0F);
    EXPECT_EQ(a[69999], 64.0F);
  });
}

TEST(Api, GroupsIssueTheirCallsAtTheEnd) {
  Ranks ranks(2);
  ranks.run([](int r, bpsComm_t comm, bpsHostStream_t stream) {
    std::vector<float> in(100, static_cast<float>(r + 1)), out(100, -1), out2(100, -1);
    ASSERT_EQ(bpsGroupStart(), bpsSuccess);
    ASSERT_EQ(bpsGroupStart(), bpsSuccess);
    ASSERT_EQ(bpsAllReduce(in.data(), out.data(), 100, bpsFloat32, bpsSum, comm, stream), bpsSuccess);
    ASSERT_EQ(bpsGroupEnd(), bpsSuccess);
    ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
    EXPECT_EQ(out[0], -1.0F) << "inner end must not issue";
    ASSERT_EQ(bpsAllReduce(in.data(), out2.data(), 100, bpsFloat32, bpsMax, comm, stream), bpsSuccess);
    ASSERT_EQ(bpsGroupEnd(), bpsSuccess);
    ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
    EXPECT_EQ(out[99], 3.0F);
    EXPECT_EQ(out2[99], 2.0F);
  });
  EXPECT_EQ(bpsGroupEnd(), bpsInvalidUsage);
}

TEST(Api, ComputesPreMultipliedSums) {
  Ranks ranks(3);
  ranks.run([](int r, bpsComm_t comm, bpsHostStream_t stream) {
    float scalar = static_cast<float>(r + 1);
    bpsRedOp_t immediate, device;
    ASSERT_EQ(bpsRedOpCreatePreMulSum(&immediate, &scalar, bpsFloat32, bpsScalarHostImmediate, comm), bpsSuccess);
    ASSERT_EQ(bpsRedOpCreatePreMulSum(&device, &scalar, bpsFloat32, bpsScalarDevice, comm), bpsSuccess);
    ASSERT_GE(static_cast<int>(immediate), static_cast<int>(bpsNumOps));
    scalar *= 10;  // bps has read the immediate scalar, but not the device scalar
    std::vector<float> in(10, 2), out(10);
    ASSERT_EQ(bpsAllReduce(in.data(), out.data(), 10, bpsFloat32, immediate, comm, stream), bpsSuccess);
    ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
    EXPECT_EQ(out[9], 12.0F);
    ASSERT_EQ(bpsAllReduce(in.data(), out.data(), 10, bpsFloat32, device, comm, stream), bpsSuccess);
    ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
    EXPECT_EQ(out[9], 120.0F);
    EXPECT_EQ(bpsAllReduce(in.data(), out.data(), 10, bpsInt32, immediate, comm, stream), bpsInvalidArgument);
    ASSERT_EQ(bpsRedOpDestroy(immediate, comm), bpsSuccess);
    EXPECT_EQ(bpsRedOpDestroy(immediate, comm), bpsInvalidArgument);
    EXPECT_EQ(bpsAllReduce(in.data(), out.data(), 10, bpsFloat32, immediate, comm, stream), bpsInvalidArgument);
  });
}

TEST(Api, InvalidArgumentsAreNamedAndHaveNoEffect) {
  Ranks ranks(1);
  bpsComm_t comm = ranks.comms[0];
  float buffer[8] = {1, 2, 3, 4};
  const auto says = [](const char* what) { return std::strstr(bpsGetLastError(nullptr), what) != nullptr; };
  EXPECT_EQ(bpsAllReduce(nullptr, buffer, 4, bpsFloat32, bpsSum, comm, nullptr), bpsInvalidArgument);
  EXPECT_TRUE(says("sendbuff"));
  EXPECT_EQ(bpsAllReduce(buffer, nullptr, 4, bpsFloat32, bpsSum, comm, nullptr), bpsInvalidArgument);
  EXPECT_TRUE(says("recvbuff"));
  EXPECT_EQ(bpsAllReduce(buffer, buffer + 2, 4, bpsFloat32, bpsSum, comm, nullptr), bpsInvalidUsage);
  EXPECT_EQ(bpsAllReduce(buffer, buffer, 4, static_cast<bpsDataType_t>(12), bpsSum, comm, nullptr), bpsInvalidArgument);
  EXPECT_EQ(bpsAllReduce(buffer, buffer, 4, bpsFloat32, static_cast<bpsRedOp_t>(5), comm, nullptr), bpsInvalidArgument);
  EXPECT_EQ(bpsAllReduce(buffer, buffer, SIZE_MAX / 2, bpsFloat32, bpsSum, comm, nullptr), bpsInvalidArgument);
  EXPECT_EQ(bpsAllReduce(buffer, buffer, 4, bpsFloat32, bpsSum, nullptr, nullptr), bpsInvalidArgument);
  EXPECT_EQ(bpsAllReduce(buffer, buffer, 4, bpsFloat32, bpsSum, comm, reinterpret_cast<cudaStream_t>(&buffer)),
            bpsInvalidArgument);
  bpsUniqueId id{};
  bpsComm_t other = comm;
  EXPECT_EQ(bpsCommInitRank(&other, 1, id, 0), bpsInvalidArgument);
  EXPECT_EQ(other, nullptr);
  ASSERT_EQ(bpsGetUniqueId(&id), bpsSuccess);
  EXPECT_EQ(bpsCommInitRank(&other, 2, id, 2), bpsInvalidArgument);
  EXPECT_EQ(bpsCommInitRank(&other, 0, id, 0), bpsInvalidArgument);
  ASSERT_EQ(bpsAllReduce(buffer, buffer, 4, bpsFloat32, bpsSum, comm, nullptr), bpsSuccess);
  ASSERT_EQ(bpsHostStreamSynchronize(nullptr), bpsSuccess);
  EXPECT_EQ(buffer[3], 4.0F);
}

TEST(Api, SplitMakesOrderedGroups) {
  Ranks ranks(5);
  ranks.run([](int r, bpsComm_t comm, bpsHostStream_t stream) {
    bpsComm_t part = comm;
    const int color = r == 4 ? BPS_SPLIT_NOCOLOR : r % 2;
    ASSERT_EQ(bpsCommSplit(comm, color, -r, &part, nullptr), bpsSuccess) << bpsGetLastError(nullptr);
    if (r == 4) {
      EXPECT_EQ(part, nullptr);
    } else {
      int rank = -1, count = 0;
      ASSERT_EQ(bpsCommUserRank(part, &rank), bpsSuccess);
      ASSERT_EQ(bpsCommCount(part, &count), bpsSuccess);
      EXPECT_EQ(count, 2);
      EXPECT_EQ(rank, r < 2 ? 1 : 0) << "the larger key comes later, keys fall with the rank";
      float value = static_cast<float>(r);
      ASSERT_EQ(bpsAllReduce(&value, &value, 1, bpsFloat32, bpsSum, part, stream), bpsSuccess);
      ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
      EXPECT_EQ(value, color == 0 ? 2.0F : 4.0F);
      EXPECT_EQ(bpsCommDestroy(part), bpsSuccess);
    }
    float one = 1;
    ASSERT_EQ(bpsAllReduce(&one, &one, 1, bpsFloat32, bpsSum, comm, stream), bpsSuccess) << "the parent goes on";
    ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
    EXPECT_EQ(one, 5.0F);
  });
}

// Two ranks, of which only rank 0 makes a call. On a separate thread, bpsCommFinalize of rank 0
// waits for the call.
class BlockedFinalize : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(bpsHostStreamCreate(&stream_), bpsSuccess);
    float* data = value_.data();
    ASSERT_EQ(bpsAllReduce(data, data, 1, bpsFloat32, bpsSum, ranks_.comms[0], stream_), bpsSuccess);
    std::atomic<pid_t> thread{0};
    const bpsComm_t comm = ranks_.comms[0];
    finalizer_ = std::jthread([this, comm, &thread] {
      thread = gettid();
      outcome_ = bpsCommFinalize(comm);
    });
    // A thread that sleeps between polls is inside bpsCommFinalize.
    while (thread == 0 || sleepCountOf(thread) < 5) std::this_thread::yield();
  }
  static int sleepCountOf(pid_t thread) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    for (std::string word; status >> word;)
      if (int times = 0; word == "voluntary_ctxt_switches:" && status >> times) return times;
    return 0;
  }
  void TearDown() override { EXPECT_NE(bpsHostStreamDestroy(stream_), bpsSuccess); }  // the call has failed

  Ranks ranks_{2};
  std::vector<float> value_{1};
  bpsHostStream_t stream_ = nullptr;
  bpsResult_t outcome_ = bpsSuccess;
  std::jthread finalizer_;
};

TEST_F(BlockedFinalize, AbortEndsItAndFreesTheCommunicator) {
  EXPECT_EQ(bpsCommAbort(std::exchange(ranks_.comms[0], nullptr)), bpsSuccess);
  finalizer_.join();
  EXPECT_NE(outcome_, bpsSuccess);
}

TEST_F(BlockedFinalize, RevokeEndsItAndFreesNothing) {
  EXPECT_EQ(bpsCommRevoke(ranks_.comms[0], 1), bpsInvalidArgument);
  EXPECT_EQ(bpsCommRevoke(ranks_.comms[0], 0), bpsSuccess);
  finalizer_.join();
  EXPECT_NE(outcome_, bpsSuccess);
  bpsResult_t state = bpsSuccess;
  EXPECT_EQ(bpsCommGetAsyncError(ranks_.comms[0], &state), bpsSuccess);
  EXPECT_NE(state, bpsSuccess);
  EXPECT_NE(bpsAllReduce(value_.data(), value_.data(), 1, bpsFloat32, bpsSum, ranks_.comms[0], stream_), bpsSuccess);
}

// Checks the error that all `n` ranks get if rank 1's call differs from the calls of the other
// ranks.
void expectMismatch(int n, size_t count, bpsDataType_t type, bpsRedOp_t op, size_t usualCount = 1000) {
  Ranks ranks(n);
  ranks.run([&](int r, bpsComm_t comm, bpsHostStream_t stream) {
    std::vector<double> in(200000), out(200000);
    const auto call = [&](size_t c, bpsDataType_t t, bpsRedOp_t o) {
      return bpsAllReduce(in.data(), out.data(), c, t, o, comm, stream);
    };
    for (int i = 0; i < 3; ++i) ASSERT_EQ(call(usualCount, bpsFloat32, bpsSum), bpsSuccess);
    const bpsResult_t issued = r == 1 ? call(count, type, op) : call(usualCount, bpsFloat32, bpsSum);
    EXPECT_EQ(outcome(issued, stream), bpsInvalidUsage);
    bpsResult_t state = bpsSuccess;
    ASSERT_EQ(bpsCommGetAsyncError(comm, &state), bpsSuccess);
    EXPECT_EQ(state, bpsInvalidUsage);
    const std::string text = bpsGetLastError(comm);
    EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
    EXPECT_NE(text.find("#3 of " + std::to_string(usualCount) + " float32, sum"), std::string::npos) << text;
    EXPECT_NE(text.find("#3 of " + std::to_string(count)), std::string::npos) << text;
  });
}

TEST(Mismatch, DifferentCountsAreReported) { expectMismatch(3, 1001, bpsFloat32, bpsSum); }
TEST(Mismatch, DifferentTypesAreReported) { expectMismatch(3, 1000, bpsInt32, bpsSum); }
TEST(Mismatch, DifferentOperationsAreReported) { expectMismatch(2, 1000, bpsFloat32, bpsMax); }
TEST(Mismatch, OneSmallCallAmongLargeOnesIsReported) { expectMismatch(3, 150000, bpsFloat64, bpsSum); }
TEST(Mismatch, OneLargeCallAmongSmallOnesIsReported) { expectMismatch(3, 1, bpsFloat32, bpsSum, 150000); }
TEST(Mismatch, ZeroAndNonzeroCountsAreReported) { expectMismatch(2, 0, bpsFloat32, bpsSum); }

TEST(Api, AbortFailsOtherRanksNamingTheRank) {
  Ranks ranks(3);
  ranks.run([&](int r, bpsComm_t comm, bpsHostStream_t stream) {
    std::vector<float> buffer(1000, 1);
    if (r == 2) {
      EXPECT_EQ(bpsCommAbort(std::exchange(ranks.comms[2], nullptr)), bpsSuccess);
      return;
    }
    const bpsResult_t issued = bpsAllReduce(buffer.data(), buffer.data(), 1000, bpsFloat32, bpsSum, comm, stream);
    EXPECT_EQ(outcome(issued, stream), bpsRemoteError);
    EXPECT_NE(std::strstr(bpsGetLastError(comm), "rank 2"), nullptr) << bpsGetLastError(comm);
    EXPECT_NE(std::strstr(bpsGetLastError(comm), "abort"), nullptr) << bpsGetLastError(comm);
    EXPECT_EQ(bpsAllReduce(buffer.data(), buffer.data(), 1, bpsFloat32, bpsSum, comm, stream), bpsRemoteError);
  });
}

TEST(Api, CallsAfterARankLeftNameThatRank) {
  Ranks ranks(2);
  float value = 1;
  ranks.run([&](int, bpsComm_t comm, bpsHostStream_t stream) {
    float mine = 1;
    ASSERT_EQ(bpsAllReduce(&mine, &mine, 1, bpsFloat32, bpsSum, comm, stream), bpsSuccess);
    ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
  });
  EXPECT_EQ(bpsCommDestroy(std::exchange(ranks.comms[1], nullptr)), bpsSuccess);
  const auto start = std::chrono::steady_clock::now();
  const bpsResult_t issued = bpsAllReduce(&value, &value, 1, bpsFloat32, bpsSum, ranks.comms[0], nullptr);
  const bpsResult_t done = bpsHostStreamSynchronize(nullptr);
  EXPECT_TRUE(issued != bpsSuccess || done == bpsRemoteError) << done;
  EXPECT_NE(std::strstr(bpsGetLastError(ranks.comms[0]), "rank 1"), nullptr) << bpsGetLastError(ranks.comms[0]);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
}

TEST(Api, RanksMayDestroyInAnyOrderAfterTheLastCall) {
  for (int first = 0; first < 3; ++first) {
    Ranks ranks(3);
    ranks.run([&](int, bpsComm_t comm, bpsHostStream_t stream) {
      std::vector<float> buffer(300000, 1);
      for (int i = 0; i < 3; ++i)
        ASSERT_EQ(bpsAllReduce(buffer.data(), buffer.data(), buffer.size(), bpsFloat32, bpsSum, comm, stream),
                  bpsSuccess);
      ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
      EXPECT_EQ(buffer[299999], 27.0F);
    });
    EXPECT_EQ(bpsCommDestroy(std::exchange(ranks.comms[static_cast<size_t>(first)], nullptr)), bpsSuccess);
    for (bpsComm_t& comm : ranks.comms) {
      if (comm == nullptr) continue;
      EXPECT_EQ(bpsCommDestroy(std::exchange(comm, nullptr)), bpsSuccess);
    }
  }
}

TEST(Api, DestroyMayFollowFinalize) {
  Ranks ranks(2);
  ranks.run([](int, bpsComm_t comm, bpsHostStream_t stream) {
    EXPECT_EQ(bpsCommFinalize(comm), bpsSuccess);
    float value = 1;
    EXPECT_EQ(bpsAllReduce(&value, &value, 1, bpsFloat32, bpsSum, comm, stream), bpsInvalidUsage);
    EXPECT_EQ(bpsCommFinalize(comm), bpsInvalidUsage);
  });
}

TEST(Api, AHundredCommunicatorsLeakNothing) {
  { const Ranks warm(2); }
  const size_t fds = bps::test::openDescriptors(), threads = bps::test::runningThreads();
  for (int i = 0; i < 100; ++i) {
    Ranks ranks(2);
    if (i % 10 == 0)
      ranks.run([](int r, bpsComm_t comm, bpsHostStream_t stream) {
        float value = static_cast<float>(r + 1);
        ASSERT_EQ(bpsAllReduce(&value, &value, 1, bpsFloat32, bpsSum, comm, stream), bpsSuccess);
        ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
        EXPECT_EQ(value, sumTo(2));
      });
  }
  // The rendezvous of the last unique id ends shortly after the last rank has joined.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while ((bps::test::openDescriptors() > fds || bps::test::runningThreads() > threads) &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_LE(bps::test::openDescriptors(), fds);
  EXPECT_LE(bps::test::runningThreads(), threads);
}

TEST(Api, MemoryIsAlignedAndCountsAreChecked) {
  void* memory = nullptr;
  ASSERT_EQ(bpsMemAlloc(&memory, 100), bpsSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0U);
  EXPECT_EQ(bpsMemFree(memory), bpsSuccess);
  ASSERT_EQ(bpsMemAlloc(&memory, 0), bpsSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(bpsMemAlloc(nullptr, 1), bpsInvalidArgument);
  EXPECT_EQ(bpsMemAlloc(&memory, SIZE_MAX), bpsInvalidArgument);
}

}  // namespace
