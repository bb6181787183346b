// Failures of calls on CUDA streams. Every failure releases the waiting streams. bps refuses
// impossible calls before they begin, and it does not disturb the stream captures of the
// application.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "src/cuda/staging/staged_buffers.h"
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

// The parameters are the number of ranks and the ranks per machine. Each rank has a machine, one
// machine has all ranks, or each of two machines has two ranks.
class CudaFailureOn : public testing::TestWithParam<std::pair<size_t, size_t>> {
 protected:
  static std::vector<Status> run(const Body& body) { return test::run(GetParam().first, body, GetParam().second); }
};
INSTANTIATE_TEST_SUITE_P(Machines, CudaFailureOn, testing::Values(std::pair(2, 1), std::pair(2, 2), std::pair(4, 2)));

TEST_P(CudaFailureOn, DisagreementReleasesTheStreams) {
  for (Status& outcome : run([](Communicator& comm) -> Status {
         const OneCall call(kCount + (comm.rank() == 0 ? 0 : 1));
         BPS_TRY(call.issue(comm));
         call.stream.synchronize();
         return comm.failure();
       })) {
    EXPECT_EQ(outcome.code(), Code::kInvalidUsage);
    EXPECT_THAT(outcome.message(), HasSubstr("100001"));
  }
}

TEST_P(CudaFailureOn, FailedCopyEndsTheCommunicatorEverywhere) {
  for (const char* function : {"cuMemcpyAsync", "cuEventQuery"}) {
    fakeCuda().fail(function, 3, 700);
    for (Status& outcome : run([](Communicator& comm) -> Status {
           const OneCall call(kCount * 10);
           BPS_TRY(call.issue(comm));
           call.stream.synchronize();
           return comm.failure();
         })) {
      EXPECT_EQ(outcome.code(), Code::kUnhandledCuda);
      EXPECT_THAT(outcome.message(), HasSubstr(function));
    }
  }
}

TEST(CudaFailure, FailedCopyBackEndsTheCommunicator) {
  fakeCuda().fail("cuMemcpyAsync", 2, 700);  // the call is one chunk, so copy 1 reads its input, copy 2 its sum
  const auto outcomes = run(1, [](Communicator& comm) -> Status {
    const OneCall call(1000);
    BPS_TRY(call.issue(comm));
    call.stream.synchronize();
    return comm.failure();
  });
  EXPECT_EQ(outcomes[0].code(), Code::kUnhandledCuda);
  EXPECT_THAT(outcomes[0].message(), HasSubstr("to the device"));
}

// bps copies nothing after the stream has continued.
TEST(CudaFailure, AbortWaitsForCopiesInFlight) {
  fakeCuda().setCopyRate(10e6);
  uint64_t before = 0, after = 0;
  const auto outcomes = run(1, [&](Communicator& comm) -> Status {
    const OneCall call(250000);  // the copy takes a tenth of a second
    const uint64_t copies = fakeCuda().calls("cuMemcpyAsync");
    BPS_TRY(call.issue(comm));
    while (fakeCuda().calls("cuMemcpyAsync") == copies) std::this_thread::yield();
    comm.abort();
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

// When the communicator ends, the stream has not yet reached the call. When the stream later passes
// the call, bps does not touch the buffers.
TEST(CudaFailure, StreamPassesItsCallAfterAnAbort) {
  const auto outcomes = run(2, [](Communicator& comm) -> Status {
    const OneCall call;
    const auto release = call.stream.hold();
    BPS_TRY(call.issue(comm));
    comm.abort();
    release();
    call.stream.synchronize();
    return {};
  });
  for (const Status& outcome : outcomes) EXPECT_THAT(outcome.message(), HasSubstr("aborted"));
}

// The other ranks never make the call, so the stream blocks at the call.
TEST_P(CudaFailureOn, AbortReleasesAWaitingStream) {
  const auto outcomes = run([](Communicator& comm) -> Status {
    const OneCall call;
    if (comm.rank() != 1) BPS_TRY(call.issue(comm));
    if (comm.rank() == 1) comm.abort();
    call.stream.synchronize();
    return comm.rank() != 1 ? comm.failure() : Status();
  });
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_EQ(outcomes[rank].code(), Code::kRemote);
    // On a machine that several ranks share, the goodbye of the aborting rank may arrive before its
    // failure.
    EXPECT_THAT(outcomes[rank].message(), AnyOf(HasSubstr("aborted"), HasSubstr("rank 1 (")));
  }
}

// The communicator is destroyed while its calls are still in the stream. The stream gate and its
// memory outlive the communicator.
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

TEST(CudaFailure, MemoryOfAnotherDeviceIsRefused) {
  const auto outcomes = run(1, [](Communicator& comm) -> Status {
    const AppStream stream;
    const Buffer here(Memory::kDevice, 4000);
    const cuda::ScopedContext scope(device(1));
    const Buffer there(Memory::kDevice, 4000);
    return comm.allReduce(callOn(stream.get(), here.get(), there.get(), 1000, kType));
  });
  EXPECT_EQ(outcomes[0].code(), Code::kInvalidArgument);
  EXPECT_THAT(outcomes[0].message(), HasSubstr("recvbuff lies on CUDA device 1, the communicator's is 0"));
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
  ::setenv("FAKE_CUDA_QUEUES", "1", 1);
  int least = 0, greatest = 0;
  api().ctxGetStreamPriorityRange(&least, &greatest);
  cuda::Stream inTheWay = nullptr;
  ASSERT_EQ(api().streamCreateWithPriority(&inTheWay, 0, greatest), cuda::kSuccess);
  const Buffer buffer(Memory::kDevice, 4096);
  Collective call;
  call.send = static_cast<uint8_t*>(buffer.get());
  call.recv = static_cast<uint8_t*>(buffer.get());
  call.stageSend = call.stageRecv = true;
  call.chunks = {{0, true, 0, 4096}};
  std::promise<void> held;
  {
    StagedBuffers staged;
    const Status prepared = staged.prepare(device(0), {2, 4096, std::chrono::milliseconds(50)});
    ::unsetenv("FAKE_CUDA_QUEUES");
    ASSERT_STREQ(prepared.message(), "");
    const auto wait = [](void* promise) { static_cast<std::promise<void>*>(promise)->get_future().wait(); };
    fakeCuda().launch(inTheWay, wait, &held);
    staged.submit(call);
    Status failed;
    while (failed.ok()) failed = staged.step().status();
    EXPECT_EQ(failed.code(), Code::kUnhandledCuda);
    EXPECT_THAT(failed.message(), HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS"));
    held.set_value();
  }
  api().streamDestroy(inTheWay);
}

}  // namespace
}  // namespace bps::test
