// All-reduces with the strictest CUDA driver that the rules allow (FAKE_CUDA_STRICT in fake_cuda.h). While a call of
// the application holds the driver's lock until its streams are idle, the all-reduces in these streams must still end.
// So nothing that they need may call CUDA after they are issued.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "tests/inproc/fake_cuda_harness.h"

namespace bps::test {
namespace {

constexpr size_t kCount = 300000;
constexpr DataType kType = DataType::kFloat32;

// Every rank has a device of its own, as processes on two machines have: two ranks of one device would share its lock.
class StrictCuda : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) ::setenv("FAKE_CUDA_STRICT", "1", 1);
  }
  void TearDown() override { ::unsetenv("FAKE_CUDA_STRICT"); }

  using RankBody = std::function<Status(Communicator&, const AppStream&)>;
  // Runs `body` on two ranks. Memory and streams exist, and every rank has made a call.
  static std::string run(const RankBody& body, size_t servers = 0) {
    Env env = cudaEnv();
    env.timeout.value = 20;
    const Servers cluster(servers, env);
    const UniqueId id = std::move(UniqueId::create(env)).value();
    std::vector<std::future<Status>> ranks;
    for (uint32_t rank = 0; rank < 2; ++rank)
      ranks.push_back(std::async(std::launch::async, [&, rank]() -> Status {
        const cuda::ScopedContext scope(device(static_cast<int>(rank)));
        Env own = env;
        own.hostId = "machine" + std::to_string(rank);
        own.servers = cluster.list();
        const auto comm = BPS_TRY(Communicator::create(own, {id, rank, 2}));
        BPS_TRY(comm->start());
        const AppStream stream;
        BPS_TRY(body(*comm, stream));
        return comm->finalize();
      }));
    std::vector<Status> outcomes;
    for (auto& rank : ranks) outcomes.push_back(rank.get());
    return failures(outcomes);
  }

  // The buffers of one call.
  struct Buffers {
    explicit Buffers(const Bytes& content) : send(Memory::kDevice, content), recv(Memory::kDevice, content.size()) {}
    Buffer send, recv;
  };
  Status issue(Communicator& comm, const AppStream& stream, const Buffers& buffers) const {
    return comm.allReduce(callOn(stream.get(), buffers.send.get(), buffers.recv.get(), kCount, kType));
  }
  const Inputs inputs_{kType, kCount, 2};
};

INSTANTIATE_TEST_SUITE_P(Driver, StrictCuda, testing::Bool(),
                         [](const auto& param) { return param.param ? "strict" : "lax"; });

TEST_P(StrictCuda, MemoryIsFreedRightAfterACall) {
  EXPECT_EQ(run([&](Communicator& comm, const AppStream& stream) -> Status {
              const Buffers buffers(inputs_.of[comm.rank()]);
              for (int i = 0; i < 20; ++i) {
                auto other = std::make_unique<Buffer>(Memory::kDevice, size_t{4096});
                BPS_TRY(issue(comm, stream, buffers));
                other.reset();  // the strict driver waits for the call here, with its lock
                stream.synchronize();
                BPS_TRY(compare(buffers.recv, inputs_.want, "recvbuff"));
              }
              return {};
            }),
            "");
}

TEST_P(StrictCuda, AKernelIsLaunchedForTheFirstTimeBehindACall) {
  EXPECT_EQ(run(
                [&](Communicator& comm, const AppStream& stream) -> Status {
                  const Buffers buffers(inputs_.of[comm.rank()]);
                  for (int i = 0; i < 20; ++i) {
                    BPS_TRY(issue(comm, stream, buffers));
                    std::atomic<int> ran{0};
                    const auto kernel = [](void* flag) { static_cast<std::atomic<int>*>(flag)->store(1); };
                    if (fakeCuda().firstLaunch(stream.get(), kernel, &ran) != cuda::kSuccess)
                      return {Code::kInternal, "no launch"};
                    stream.synchronize();
                    if (ran != 1) return {Code::kInternal, "the kernel did not run"};
                    BPS_TRY(compare(buffers.recv, inputs_.want, "recvbuff"));
                  }
                  return {};
                },
                1),
            "");
}

TEST_P(StrictCuda, TheQueueOfLaunchesIsFull) {
  ::setenv("FAKE_CUDA_DEPTH", "8", 1);
  EXPECT_EQ(run([&](Communicator& comm, const AppStream& stream) -> Status {
              const Buffers buffers(inputs_.of[comm.rank()]);
              std::atomic<int> kernels{0};
              for (int i = 0; i < 10; ++i) {
                BPS_TRY(issue(comm, stream, buffers));
                for (int k = 0; k < 20; ++k) stream.run([&] { ++kernels; });
              }
              stream.synchronize();
              if (kernels != 200) return {Code::kInternal, "kernels are missing"};
              return compare(buffers.recv, inputs_.want, "recvbuff");
            }),
            "");
  ::unsetenv("FAKE_CUDA_DEPTH");
}

// Every kernel behind a call blocks its caller until the call has ended.
TEST_P(StrictCuda, LaunchesWaitForTheirKernels) {
  ::setenv("FAKE_CUDA_LAUNCH_BLOCKING", "1", 1);
  EXPECT_EQ(run(
                [&](Communicator& comm, const AppStream& stream) -> Status {
                  const Buffers buffers(inputs_.of[comm.rank()]);
                  for (int i = 0; i < 20; ++i) {
                    BPS_TRY(issue(comm, stream, buffers));
                    bool right = false;
                    stream.run([&] { right = compare(buffers.recv, inputs_.want, "recvbuff").ok(); });
                    if (!right) return {Code::kInternal, "the kernel ran before the call had ended"};
                  }
                  return {};
                },
                1),
            "");
  ::unsetenv("FAKE_CUDA_LAUNCH_BLOCKING");
}

// The stream is of the context of another device. Streams of green contexts are also of other contexts.
TEST_P(StrictCuda, TheStreamIsOfAnotherContext) {
  EXPECT_EQ(run([&](Communicator& comm, const AppStream&) -> Status {
              const Buffers buffers(inputs_.of[comm.rank()]);
              std::optional<cuda::ScopedContext> other(std::in_place, device(static_cast<int>(3 + comm.rank())));
              const AppStream stream;
              other.reset();
              for (int i = 0; i < 20; ++i) {
                BPS_TRY(issue(comm, stream, buffers));
                stream.synchronize();
                BPS_TRY(compare(buffers.recv, inputs_.want, "recvbuff"));
              }
              return {};
            }),
            "");
}

// A call that is larger than the staging memory takes more operations than the queues of the driver have room for.
TEST_P(StrictCuda, OneCallFillsTheQueueOfLaunches) {
  constexpr size_t kLarge = (80U << 20) / 4;
  const Inputs inputs(kType, kLarge, 2);
  EXPECT_EQ(run(
                [&](Communicator& comm, const AppStream& stream) -> Status {
                  const Buffers buffers(inputs.of[comm.rank()]);
                  BPS_TRY(comm.allReduce(callOn(stream.get(), buffers.send.get(), buffers.recv.get(), kLarge, kType)));
                  stream.synchronize();
                  return compare(buffers.recv, inputs.want, "recvbuff");
                },
                1),
            "");
}

TEST_P(StrictCuda, CallsOfTwoCommunicatorsHaveDifferentOrdersOnTheRanks) {
  const Env env = cudaEnv();
  const UniqueId ids[] = {std::move(UniqueId::create(env)).value(), std::move(UniqueId::create(env)).value()};
  EXPECT_EQ(run([&](Communicator& first, const AppStream& stream) -> Status {
              const AppStream streams[2];
              Env own = env;
              own.hostId = "machine" + std::to_string(first.rank());
              const auto second = BPS_TRY(Communicator::create(own, {ids[0], first.rank(), 2}));
              BPS_TRY(second->start());
              const Buffers one(inputs_.of[first.rank()]), other(inputs_.of[first.rank()]);
              BPS_TRY(issue(first, stream, one));
              BPS_TRY(issue(*second, stream, other));
              stream.synchronize();
              for (int i = 0; i < 10; ++i) {
                const bool swap = first.rank() == 1;
                BPS_TRY(issue(swap ? *second : first, streams[0], swap ? other : one));
                BPS_TRY(issue(swap ? first : *second, streams[1], swap ? one : other));
              }
              for (const AppStream& each : streams) each.synchronize();
              BPS_TRY(compare(one.recv, inputs_.want, "recvbuff"));
              BPS_TRY(compare(other.recv, inputs_.want, "recvbuff"));
              return second->finalize();
            }),
            "");
}

// The test's thread keeps the driver's lock while it waits for the streams, and another one aborts.
TEST_P(StrictCuda, AbortCallsNothingOfCuda) {
  const std::string outcome = run([&](Communicator& comm, const AppStream& stream) -> Status {
    const Buffers buffers(inputs_.of[comm.rank()]);
    BPS_TRY(issue(comm, stream, buffers));
    stream.synchronize();
    if (comm.rank() == 1) {  // makes no second call
      while (comm.failure().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return {};
    }
    BPS_TRY(issue(comm, stream, buffers));
    std::jthread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      comm.abort();
      comm.releaseFailedStreams();
    });
    { const Buffer freed(Memory::kDevice, size_t{4096}); }
    aborter.join();
    return comm.failure();
  });
  EXPECT_NE(outcome.find("aborted"), std::string::npos) << outcome;
}

}  // namespace
}  // namespace bps::test
