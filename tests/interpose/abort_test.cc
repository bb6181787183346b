// A communicator is aborted on another thread, in every state of the communicator.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {
// Aborts the communicator while another thread is in `call`. Returns the duration of the abort. If
// the other thread enters `call` only after the abort, `call` fails too.
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

namespace {
// Forks a child that aborts the communicator, if there is one, and then calls exit(). exit() must take less than 50 ms;
// the machine may delay one of three attempts.
void forkAndExit(ncclComm_t aborted) {
  std::chrono::duration<double> best{1e9};
  for (int attempt = 0; attempt < 3; ++attempt) {
    int ends[2];
    BPS_CHECK(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      if (aborted != nullptr) (void)ncclCommAbort(aborted);
      const auto start = std::chrono::steady_clock::now().time_since_epoch().count();
      BPS_CHECK(::write(ends[1], &start, sizeof start) == sizeof start);
      std::exit(0);
    }
    int status = -1;
    BPS_CHECK(::waitpid(child, &status, 0) == child);
    const auto end = std::chrono::steady_clock::now().time_since_epoch();
    BPS_EQUAL(status, 0);
    std::chrono::steady_clock::rep start = 0;
    BPS_CHECK(::read(ends[0], &start, sizeof start) == sizeof start);
    best = std::min<std::chrono::duration<double>>(best, end - std::chrono::steady_clock::duration(start));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  BPS_CHECK(best < std::chrono::milliseconds(50));
}
}  // namespace

// The exit handlers of a forked child, or its abort, must not say goodbye for the parent. The exit
// handlers and the abort must not wait for threads that the child does not have.
BPS_SCENARIO(AForkedChildExitsWithoutDisturbingItsParent, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  for (const bool aborts : {false, true}) {
    // A call is in flight during the fork: rank 1 has not called yet.
    const Buffer data(kLarge, 1);
    const auto call = [&] {
      BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()));
    };
    if (self.rank == 0 && onDevice()) call();
    forkAndExit(aborts ? comm : nullptr);
    self.barrier(aborts ? 1 : 0);
    if (self.rank == 1 || !onDevice()) call();
    synchronize();
    BPS_CHECK(data.all(2));
    for (int i = 0; i < 100; ++i) BPS_NCCL(allReduce(self, comm, kLarge));
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
  synchronize();  // the stream has passed the aborted call
  self.barrier(2);
  if (self.rank == 0 && pid > 0) BPS_CHECK(::kill(pid, SIGCONT) == 0);
  BPS_CHECK(took < std::chrono::seconds(2));
  self.barrier(3);
  BPS_NCCL(allReduce(self, self.makeComm(1), kLarge));  // the process can still use communicators
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
// One thread issues calls faster than a blocked stream takes them, until it waits for room in the
// driver's queue.
void abortBehindAFullQueue(const Rank& self) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  const Buffer data(1U << 18);
  // Without the other half of the ranks, these calls do not end.
  const bool calls = self.rank < self.nRanks / 2 && onDevice();
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

// A call of the communicator `before` blocks the stream until `before` is aborted. The test aborts
// `behind` first and `before` afterwards.
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

// The queue has room for few calls. The caller therefore blocks in the middle of a later call, where
// bps all-reduces between the machines.
BPS_SCENARIO(AbortEndsAGpuGroupCallBlockedOnAFullQueue, 4, {"FAKE_CUDA_DEPTH", "32"}, {"FAKE_CUDA_QUEUES", "1"},
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
  self.barrier(0);  // rank 1 has not called before this point
}

// NCCL frees an aborted communicator. During the abort and after it, no bps thread may be in an
// NCCL function for that communicator.
BPS_SCENARIO(NoBpsThreadIsInNcclDuringItsAbort, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  if (self.rank == 0 && onDevice()) {  // without CUDA the call waits inside NCCL, which only the abort ends
    const Buffer data(kLarge);
    stream();
    fakeNcclDelayAsyncError(50);
    std::thread caller(
        [&] { (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()); });
    while (fakeNcclAsyncErrorCalls() == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the poll is running or not; both cases must work
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
    if (self.rank == 0) {  // rank 1 does not call, so neither the call nor a wait for the call can end
      const Buffer data(kLarge);
      std::thread caller(
          [&] { (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()); });
      if (onDevice()) caller.join();  // with CUDA the caller returns at once
      fakeNcclClearCalls();
      ncclResult_t finalized = ncclSuccess;
      const auto took = abortDuring(comm, [&] { finalized = ncclCommFinalize(comm); });
      // NCCL frees an aborted communicator, so bps must not pass the finalize to NCCL. If the test
      // starts the finalize only after the abort, the finalize reaches NCCL and succeeds.
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
  // This is NCCL's result for a call that waits during the abort, or for a call after the abort.
  const ncclResult_t called = allReduce(self, comm, kLarge);
  BPS_CHECK(called == ncclRemoteError || called == ncclInvalidArgument);
}

namespace {
// Returns whether NCCL refused the call because the test started it after the abort.
bool cameLate(ncclResult_t result) { return result == ncclInvalidArgument; }
}  // namespace

// The other rank never calls. NCCL has freed the aborted communicator, so bps does not pass the
// destroy to NCCL.
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

// All calls are done, and the stopped process of the other rank does not receive the goodbye.
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
    const bool early = ended;  // the goodbye may already have timed out, if the test slept too long
    BPS_NCCL(ncclCommAbort(comm));
    finalizer.join();
    BPS_CHECK(::kill(self.page->arrived[2], SIGCONT) == 0);
    BPS_CHECK(early || finalized != ncclSuccess);
    BPS_CHECK(early || cameLate(finalized) || !contains(takeNcclCalls(), "ncclCommFinalize"));
  }
  self.barrier(1);
}

// A thread that blocks in the driver keeps the communicator `behind` alive. Meanwhile, bps copies a
// sum of `behind` back to the device.
BPS_SCENARIO(NothingIsCopiedAfterAnAbort, 2, {"FAKE_CUDA_DEPTH", "256"}, {"BPS_DEBUG", "NONE"}) {
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
    BPS_NCCL(ncclCommAbort(behind));  // if the call has failed, its stream stands until now
    return;
  }
  allReduceData();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // bps has copied the data to the host
  BPS_NCCL(ncclAllReduce(small.data(), small.data(), kLarge, ncclFloat32, ncclSum, before, stream()));
  std::thread caller([&] {
    while (ncclAllReduce(small.data(), small.data(), kLarge, ncclFloat32, ncclSum, behind, stream()) == ncclSuccess)
      ;
  });
  setCopyRate(4e6);                                             // copying all bytes takes one second
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the caller blocks in the driver
  const uint64_t out = copiedBytes();
  self.barrier(1);
  while (copiedBytes() < out + data.size() / 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // bps has issued the next copies
  BPS_NCCL(ncclCommAbort(behind));
  const uint64_t copied = copiedBytes();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  BPS_EQUAL(copiedBytes(), copied);
  BPS_NCCL(ncclCommAbort(before));
  caller.join();
  synchronize();
  self.barrier(2);
}

// A driver may wait for all streams of a device when memory of the device is freed.
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
