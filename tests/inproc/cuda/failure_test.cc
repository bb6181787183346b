// Failures of calls on CUDA streams. After a failure a stream stands at its call until the communicator is aborted, so
// that no later work takes the buffers for sums. bps refuses impossible calls before they begin, and it does not
// disturb the stream captures of the application.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "src/cuda/staging/cuda_backend.h"
#include "tests/inproc/fake_cuda_harness.h"

namespace bps::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr size_t kCount = 100000;
constexpr DataType kType = DataType::kFloat32;

std::vector<Status> run(size_t ranks, const Body& body, size_t perMachine = 1) {
  Job job;
  job.ranks = ranks;
  job.ranksPerMachine = perMachine;
  job.env = cudaEnv();
  return runRanks(job, [&](Communicator& comm) -> Status {
    const cuda::ScopedContext scope(device(0));
    return body(comm);
  });
}

// One call on the memory of device 0.
struct OneCall {
  explicit OneCall(size_t count_ = kCount) : count(count_) {}
  Status issue(Communicator& comm) const {
    return comm.allReduce(callOn(stream.get(), send.get(), recv.get(), count, kType));
  }
  size_t count;
  AppStream stream;
  Buffer send{Memory::kDevice, count * 4}, recv{Memory::kDevice, count * 4};
};

// Waits for the failure of the communicator, sees that the stream stands at the call, and aborts.
Status awaitFailure(Communicator& comm, const AppStream& stream) {
  std::atomic<bool> passed{false};
  stream.run([&] { passed = true; });
  while (comm.failure().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(passed) << "work behind a failed call ran";
  Status failed = comm.failure();
  comm.abort();
  comm.releaseFailedStreams();
  stream.synchronize();
  return failed;
}

// The parameters are the number of ranks and the ranks per machine. Each rank has a machine, one
// machine has all ranks, or each of two machines has two ranks.
class CudaFailureOn : public testing::TestWithParam<std::pair<size_t, size_t>> {
 protected:
  static std::vector<Status> run(const Body& body) { return test::run(GetParam().first, body, GetParam().second); }
};
INSTANTIATE_TEST_SUITE_P(Machines, CudaFailureOn, testing::Values(std::pair(2, 1), std::pair(2, 2), std::pair(4, 2)));

TEST_P(CudaFailureOn, StreamsStandAfterADisagreement) {
  for (Status& outcome : run([](Communicator& comm) -> Status {
         const OneCall call(kCount + (comm.rank() == 0 ? 0 : 1));
         BPS_TRY(call.issue(comm));
         return awaitFailure(comm, call.stream);
       })) {
    EXPECT_EQ(outcome.code(), Code::kInvalidUsage);
    EXPECT_THAT(outcome.message(), HasSubstr("100001"));
  }
}

// The rank on which the driver fails returns the error from its call. Its call is in the stream in part.
TEST_P(CudaFailureOn, FailureOfTheDriverEndsTheCommunicatorEverywhere) {
  for (const char* function : {"cuMemcpyAsync", "cuStreamWriteValue32_v2", "cuStreamWaitEvent"}) {
    fakeCuda().fail(function, 3, 700);
    for (Status& outcome : run([](Communicator& comm) -> Status {
           const OneCall call(kCount * 10);
           Status issued = call.issue(comm);
           if (issued.ok()) return awaitFailure(comm, call.stream);
           comm.abort();
           comm.releaseFailedStreams();
           call.stream.synchronize();
           return issued;
         })) {
      EXPECT_EQ(outcome.code(), Code::kUnhandledCuda) << outcome.message();
      EXPECT_THAT(outcome.message(), HasSubstr(std::string(function).substr(0, 13)));
    }
  }
}

// After an abort, bps copies nothing once the stream has continued.
TEST(CudaFailure, StreamContinuesOnlyAfterTheCopiesInFlight) {
  fakeCuda().setCopyRate(10e6);
  uint64_t before = 0, after = 0;
  const auto outcomes = run(1, [&](Communicator& comm) -> Status {
    const OneCall call(250000);  // the copy takes a tenth of a second
    const uint64_t copied = fakeCuda().calls("copied bytes");
    BPS_TRY(call.issue(comm));
    while (fakeCuda().calls("copied bytes") == copied) std::this_thread::yield();
    comm.abort();
    comm.releaseFailedStreams();
    call.stream.synchronize();
    before = fakeCuda().calls("copied bytes");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    after = fakeCuda().calls("copied bytes");
    return {};
  });
  fakeCuda().setCopyRate(0);
  EXPECT_EQ(before, after);
  EXPECT_THAT(outcomes[0].message(), HasSubstr("aborted"));
}

// When the communicator ends, the stream has not yet reached the call. Until the stream passes the call, bps does not
// touch the buffers.
TEST(CudaFailure, StreamPassesItsCallAfterAnAbort) {
  const auto outcomes = run(2, [](Communicator& comm) -> Status {
    const OneCall call;
    std::memset(call.recv.bytes(), 1, kCount * 4);
    const auto release = call.stream.hold();
    BPS_TRY(call.issue(comm));
    comm.abort();
    comm.releaseFailedStreams();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(call.recv.bytes()[0], 1);
    release();
    call.stream.synchronize();
    return {};
  });
  for (const Status& outcome : outcomes) EXPECT_THAT(outcome.message(), HasSubstr("aborted"));
}

// The other ranks never make the call, so the stream blocks at the call.
TEST_P(CudaFailureOn, AbortEndsTheCallsOfTheOtherRanks) {
  const auto outcomes = run([](Communicator& comm) -> Status {
    const OneCall call;
    if (comm.rank() != 1) BPS_TRY(call.issue(comm));
    if (comm.rank() != 1) return awaitFailure(comm, call.stream);
    comm.abort();
    return {};
  });
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_EQ(outcomes[rank].code(), Code::kRemote);
    // On a machine that several ranks share, the goodbye of the aborting rank may arrive before its
    // failure.
    EXPECT_THAT(outcomes[rank].message(), AnyOf(HasSubstr("aborted"), HasSubstr("rank 1 (")));
  }
}

// The communicator is destroyed while its calls are still in the stream. The CopyQueue and its memory outlive the
// communicator.
TEST(CudaFailure, StreamOutlivesTheCommunicator) {
  std::vector<std::unique_ptr<OneCall>> calls(2);
  std::vector<std::function<void()>> releases(2);
  const cuda::ScopedContext scope(device(0));
  const auto outcomes = run(2, [&](Communicator& comm) -> Status {
    calls[comm.rank()] = std::make_unique<OneCall>();
    releases[comm.rank()] = calls[comm.rank()]->stream.hold();
    BPS_TRY(calls[comm.rank()]->issue(comm));
    BPS_TRY(calls[comm.rank()]->issue(comm));
    comm.abort();
    return {};
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(outcomes[rank].message(), HasSubstr("aborted"));
    releases[rank]();
    calls[rank]->stream.synchronize();
  }
}

TEST(CudaFailure, CapturedStreamsAreRefused) {
  const auto begin = reinterpret_cast<int (*)(cuda::Stream, int)>(driverFunction("cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<int (*)(cuda::Stream, void**)>(driverFunction("cuStreamEndCapture"));
  const auto outcomes = run(2, [&](Communicator& comm) -> Status {
    const OneCall captured;
    if (begin(captured.stream.get(), 2) != cuda::kSuccess) return {Code::kInternal, "no capture"};
    const Status refused = captured.issue(comm);
    EXPECT_EQ(refused.code(), Code::kInvalidUsage);
    EXPECT_THAT(refused.message(), HasSubstr("captured into a graph"));
    void* graph = nullptr;
    EXPECT_EQ(end(captured.stream.get(), &graph), cuda::kSuccess);
    // The refused call has no later effect.
    const OneCall next;
    BPS_TRY(next.issue(comm));
    next.stream.synchronize();
    return comm.failure();
  });
  EXPECT_EQ(failures(outcomes), "");
}

// A capture in global mode forbids unsafe functions on all threads except those in relaxed mode.
// bps's threads are in relaxed mode.
TEST(CudaFailure, CapturesOnOtherStreamsContinue) {
  const auto begin = reinterpret_cast<int (*)(cuda::Stream, int)>(driverFunction("cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<int (*)(cuda::Stream, void**)>(driverFunction("cuStreamEndCapture"));
  const cuda::ScopedContext scope(device(0));
  const AppStream captured;
  ASSERT_EQ(begin(captured.get(), 0), cuda::kSuccess);
  EXPECT_EQ(failures(run(2,
                         [](Communicator& comm) -> Status {
                           std::vector<std::unique_ptr<OneCall>> calls;
                           for (int i = 0; i < 3; ++i) calls.push_back(std::make_unique<OneCall>(kCount * 5));
                           for (const auto& call : calls) BPS_TRY(call->issue(comm));
                           for (const auto& call : calls) call->stream.synchronize();
                           return comm.failure();
                         })),
            "");
  void* graph = nullptr;
  EXPECT_EQ(end(captured.get(), &graph), cuda::kSuccess) << "the capture was invalidated";
}

TEST(CudaFailure, HostStreamsTakeNoDeviceMemory) {
  const auto outcomes = run(1, [](Communicator& comm) -> Status {
    const Buffer buffer(Memory::kDevice, 4000);
    AllReduceCall call = callOn(nullptr, buffer.get(), buffer.get(), 1000, kType);
    call.stream = HostStream::create();
    call.handle = call.stream.get();
    const Status refused = comm.allReduce(call);
    HostStream::destroy(call.handle);
    return refused.clone();
  });
  EXPECT_EQ(outcomes[0].code(), Code::kInvalidUsage);
  EXPECT_THAT(outcomes[0].message(), HasSubstr("host stream"));
}

// A copy may not end, for example because it is queued behind a stream that waits for bps.
TEST(CudaFailure, CopyThatDoesNotEndIsReported) {
  const cuda::ScopedContext scope(device(0));
  const Buffer buffer(Memory::kDevice, 8U << 20);
  cuda::CopyQueue& queue = *std::move(cuda::CopyQueue::take(device(0), false)).value();
  StagedBuffers staged;
  staged.setCopyTimeout(std::chrono::milliseconds(50));
  staged.setQueue(queue);
  Collective call;
  call.send = static_cast<uint8_t*>(buffer.get());
  call.recv = static_cast<uint8_t*>(buffer.get());
  call.stageSend = call.stageRecv = true;
  for (uint32_t i = 0; i < 2; ++i) call.chunks.push_back({0, i << 20, 1U << 20, i});
  call.remaining = call.chunks.size();
  fakeCuda().setCopyRate(1e6);  // a copy takes a second
  const auto placed = std::move(queue.place({call.send, call.recv}, call.chunks)).value();
  call.staging = placed.staged;
  staged.submit(call);
  ASSERT_STREQ(queue.enqueue(placed).message(), "");
  Status failed;
  while (failed.ok()) failed = staged.step().status();
  EXPECT_EQ(failed.code(), Code::kUnhandledCuda);
  EXPECT_THAT(failed.message(), HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS"));
  fakeCuda().setCopyRate(0);
  queue.release();
  while (!queue.idle()) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the copies use the buffer
  cuda::CopyQueue::recycle(&queue);
}

}  // namespace
}  // namespace bps::test
