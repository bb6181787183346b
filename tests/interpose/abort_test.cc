// Aborts of communicators by another thread, in every state of a call.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {
// Aborts the communicator while another thread is in `call`, and returns the abort's time. A late call finds the
// communicator aborted, and fails as well.
std::chrono::duration<double> abortDuring(
    ncclComm_t comm, const std::function<void()>& call, const std::function<void()>& afterwards = [] {}) {
  std::atomic<bool> calling{false};
  std::thread caller([&] {
    calling = true;
    call();
  });
  while (!calling) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto start = std::chrono::steady_clock::now();
  BPS_NCCL(ncclCommAbort(comm));
  const auto took = std::chrono::steady_clock::now() - start;
  afterwards();
  caller.join();
  return took;
}
}  // namespace

// The exit handlers of a forked child must not leave the communicator for the parent, or wait for its threads.
BPS_SCENARIO(AForkedChildExitsWithoutDisturbingItsParent, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  for (const bool aborts : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      if (aborts) (void)ncclCommAbort(comm);
      std::exit(0);
    }
    int status = -1;
    BPS_CHECK(::waitpid(child, &status, 0) == child);
    BPS_EQUAL(status, 0);
    BPS_CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
    self.barrier(aborts ? 1 : 0);
    BPS_NCCL(allReduce(self, comm, kLarge));
  }
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce:4096"));
}

namespace {
void abortWithAStoppedServer(const Rank& self) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const char* server = std::getenv("FAKE_NCCL_STOP_PID");
  const pid_t pid = server != nullptr ? std::atoi(server) : 0;
  self.barrier(0);
  if (self.rank == 0 && pid > 0) BPS_CHECK(::kill(pid, SIGSTOP) == 0);
  self.barrier(1);
  const Buffer data(1U << 20);
  const auto took = abortDuring(comm, [&] {
    const ncclResult_t called =
        ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream());
    if (!onDevice()) BPS_CHECK(pid <= 0 || called != ncclSuccess);
  });
  synchronize();  // the stream goes on
  self.barrier(2);
  if (self.rank == 0 && pid > 0) BPS_CHECK(::kill(pid, SIGCONT) == 0);
  BPS_CHECK(took < std::chrono::seconds(2));
  self.barrier(3);
  BPS_NCCL(allReduce(self, self.makeComm(1), kLarge));  // the process goes on
}
}  // namespace

BPS_SCENARIO(AbortEndsACallThatAStoppedServerHoldsUp, 2, {"BPS_TIMEOUT", "60"}, {"BPS_DIRECT_BYTES", "0"},
             {"BPS_EAGER_BYTES", "0"}, {"BPS_DEBUG", "NONE"}) {
  abortWithAStoppedServer(self);
}

BPS_SCENARIO(AbortEndsACallOfRanksThatShareMachines, 4, {"BPS_TIMEOUT", "60"}, {"BPS_DIRECT_BYTES", "0"},
             {"BPS_EAGER_BYTES", "0"}, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  abortWithAStoppedServer(self);
}

namespace {
// A thread that issues calls into a standing stream waits for room in the driver's queue.
void abortBehindAFullQueue(const Rank& self) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  const Buffer data(1U << 18);
  const bool calls = self.rank < self.nRanks / 2 && onDevice();  // the calls do not end without the other ranks
  std::atomic<int> issued{0};
  std::thread caller([&] {
    if (!calls) return;
    while (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream()) == ncclSuccess)
      ++issued;
  });
  for (int before = -1; before != issued; std::this_thread::sleep_for(std::chrono::milliseconds(200))) before = issued;
  const auto start = std::chrono::steady_clock::now();
  ncclResult_t state = ncclSuccess;
  BPS_NCCL(ncclCommGetAsyncError(comm, &state));
  self.barrier(1);
  BPS_NCCL(ncclCommAbort(comm));
  BPS_CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
  caller.join();
  synchronize();
  BPS_EQUAL(issued > 0, calls);
}
}  // namespace

// A call of another communicator, which is ended later, holds up the stream.
BPS_SCENARIO(AbortEndsACallQueuedBehindAnotherCommunicator, 2, {"FAKE_CUDA_DEPTH", "16"}, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t before = self.makeComm(0), behind = self.makeComm(1);
  negotiate(self, before);
  negotiate(self, behind);
  self.barrier(0);
  if (self.rank == 0 && onDevice()) {
    const Buffer data(kLarge);
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, before, stream()));
    const auto fill = [&] {
      while (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, behind, stream()) ==
             ncclSuccess)
        ;
    };
    BPS_CHECK(abortDuring(behind, fill, [&] { BPS_NCCL(ncclCommAbort(before)); }) < std::chrono::seconds(2));
    synchronize();
  }
  self.barrier(1);
}

BPS_SCENARIO(AbortEndsACallBlockedOnAFullQueue, 2, {"FAKE_CUDA_DEPTH", "16"}, {"BPS_DEBUG", "NONE"}) {
  abortBehindAFullQueue(self);
}

// One and a half calls fill the queue: the caller blocks where bps all-reduces its part.
BPS_SCENARIO(AbortEndsAGpuGroupCallBlockedOnAFullQueue, 4, {"FAKE_CUDA_DEPTH", "9"}, {"FAKE_CUDA_QUEUES", "1"},
             {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  abortBehindAFullQueue(self);
}

BPS_SCENARIO(AbortEndsAFirstCallThatWaitsForOthers, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  if (self.rank == 0) {
    const Buffer data(kLarge);
    abortDuring(comm, [&] {
      BPS_CHECK(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()) != ncclSuccess);
    });
  }
  self.barrier(0);  // rank 1 never called
}

// NCCL frees what it aborts: no thread of bps may be inside NCCL then, or call it later.
BPS_SCENARIO(NoBpsThreadIsInNcclDuringItsAbort, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  if (self.rank == 0 && onDevice()) {  // on the host the call waits for rank 1 inside NCCL, which only the abort ends
    const Buffer data(kLarge);
    stream();
    fakeNcclDelayAsyncError(50);
    std::thread caller(
        [&] { (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()); });
    while (fakeNcclAsyncErrorCalls() == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the thread may or may not poll again now
    BPS_NCCL(ncclCommAbort(comm));
    const unsigned looks = fakeNcclAsyncErrorCalls();
    caller.join();
    BPS_EQUAL(fakeNcclAsyncErrorCalls(), looks);
  }
  self.barrier(0);
}

BPS_SCENARIO(AbortEndsAFinalizeThatWaits, 2, {"BPS_DEBUG", "NONE"}) {
  for (int round = 0; round < 3; ++round) {
    const ncclComm_t comm = self.makeComm(round);
    negotiate(self, comm);
    self.barrier(2 * round);
    if (self.rank == 0) {  // rank 1 does not call, so this rank's call does not end by itself
      const Buffer data(kLarge);
      std::thread caller(
          [&] { (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()); });
      if (onDevice()) caller.join();  // it does not wait
      fakeNcclClearCalls();
      ncclResult_t finalized = ncclSuccess;
      const auto took = abortDuring(comm, [&] { finalized = ncclCommFinalize(comm); });
      // NCCL frees what it aborts. Only a finalize that the test started too late gets there.
      BPS_CHECK(finalized == ncclSuccess || !contains(takeNcclCalls(), "ncclCommFinalize"));
      BPS_CHECK(took < std::chrono::seconds(2));
      if (caller.joinable()) caller.join();
      synchronize();
    }
    self.barrier(2 * round + 1);
  }
}

BPS_SCENARIO(AnAbortOnAnotherRankEndsTheFirstCall, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  if (self.rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    BPS_NCCL(ncclCommAbort(comm));
    return;
  }
  // NCCL's results: for a call that waits, and for one after the abort.
  const ncclResult_t called = allReduce(self, comm, kLarge);
  BPS_CHECK(called == ncclRemoteError || called == ncclInvalidArgument);
}

// A destroy completes the calls in a stream, and must not cut them off.

namespace {
// If the test is late, the call comes after the abort, and NCCL refuses it.
bool cameLate(ncclResult_t result) { return result == ncclInvalidArgument; }
}  // namespace

// The other rank never calls. NCCL has freed the aborted communicator: the destroy must not reach NCCL.
BPS_SCENARIO(AbortEndsADestroyThatWaits, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  if (self.rank == 0 && onDevice()) {
    const Buffer data(kLarge);
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()));
    fakeNcclClearCalls();
    ncclResult_t destroyed = ncclSuccess;
    BPS_CHECK(abortDuring(comm, [&] { destroyed = ncclCommDestroy(comm); }) < std::chrono::seconds(2));
    BPS_CHECK(destroyed != ncclSuccess && (cameLate(destroyed) || !contains(takeNcclCalls(), "ncclCommDestroy")));
    synchronize();
  }
  self.barrier(1);
}

// All calls are done, and the other process is stopped.
BPS_SCENARIO(AFinalizeAbortedDuringBpsShutdownFails, 2, {"BPS_TIMEOUT", "20"}, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  if (self.rank == 1) self.page->arrived[2] = ::getpid();
  self.barrier(0);
  if (self.rank == 0) {
    BPS_CHECK(::kill(self.page->arrived[2], SIGSTOP) == 0);
    fakeNcclClearCalls();
    std::atomic<bool> ended{false};
    ncclResult_t finalized = ncclSuccess;
    std::thread finalizer([&] {
      finalized = ncclCommFinalize(comm);
      ended = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const bool early = ended;  // the wait for the other process has a limit, which the test may have overslept
    BPS_NCCL(ncclCommAbort(comm));
    finalizer.join();
    BPS_CHECK(::kill(self.page->arrived[2], SIGCONT) == 0);
    BPS_CHECK(early || finalized != ncclSuccess);
    BPS_CHECK(early || cameLate(finalized) || !contains(takeNcclCalls(), "ncclCommFinalize"));
  }
  self.barrier(1);
}

// A sum is copied back while a thread blocks in the driver and so keeps the communicator from being freed.
BPS_SCENARIO(NothingIsCopiedAfterAnAbort, 2, {"FAKE_CUDA_DEPTH", "48"}, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t before = self.makeComm(0), behind = self.makeComm(1);
  negotiate(self, before);
  negotiate(self, behind);
  if (!onDevice()) return;
  self.barrier(0);
  const Buffer small(kLarge), data(1U << 20);
  const cudaStream_t aside = newStream();
  const auto allReduceData = [&] {
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, behind, aside));
  };
  if (self.rank == 1) {
    self.barrier(1);
    allReduceData();
    self.barrier(2);
    return;
  }
  allReduceData();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // copied out
  BPS_NCCL(ncclAllReduce(small.data(), small.data(), kLarge, ncclFloat32, ncclSum, before, stream()));
  std::thread caller([&] {
    while (ncclAllReduce(small.data(), small.data(), kLarge, ncclFloat32, ncclSum, behind, stream()) == ncclSuccess)
      ;
  });
  setCopyRate(4e6);                                             // 1 s for the buffer
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the caller blocks
  const uint64_t out = copiedBytes();
  self.barrier(1);
  while (copiedBytes() < out + data.size() / 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the next copies are queued
  BPS_NCCL(ncclCommAbort(behind));
  const uint64_t copied = copiedBytes();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  BPS_EQUAL(copiedBytes(), copied);
  BPS_NCCL(ncclCommAbort(before));
  caller.join();
  synchronize();
  self.barrier(2);
}

// A driver may wait for all streams of the device before it frees memory.
BPS_SCENARIO(AnAbortDoesNotWaitForAnotherCommunicatorsStream, 2, {"FAKE_CUDA_FREE_WAITS", "1"}, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t stands = self.makeComm(0), ends = self.makeComm(1);
  negotiate(self, stands);
  negotiate(self, ends);
  if (!onDevice()) return;
  self.barrier(0);
  if (self.rank == 0) {
    const Buffer data(kLarge);
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, stands, stream()));
    const auto start = std::chrono::steady_clock::now();
    BPS_NCCL(ncclCommAbort(ends));
    BPS_CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
    BPS_NCCL(ncclCommAbort(stands));
  }
  self.barrier(1);
}
