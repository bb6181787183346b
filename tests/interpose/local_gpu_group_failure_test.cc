// All ranks hear of a failure in a local GPU group, and no rank gets a wrong sum.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {
// Polls until there is an error; the scenario's time limit ends it.
ncclResult_t awaitError(ncclComm_t comm) {
  for (ncclResult_t state = ncclSuccess;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    BPS_NCCL(ncclCommGetAsyncError(comm, &state));
    if (state != ncclSuccess) return state;
  }
}

// The last rank dies, and the others call.
void callAfterRankDied(const Rank& self, ncclComm_t comm, const Buffer& data) {
  self.barrier(0);
  if (self.rank == 3) ::_exit(0);
  (void)ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream());
}
}  // namespace

// NCCL's part of a call waits on the device for a dead rank. All ranks hear of the death, and can abort.
BPS_SCENARIO(ADeadRankOfAGpuGroupFailsAllRanks, 4, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer data(kGpuGroupCount);
  callAfterRankDied(self, comm, data);
  BPS_EQUAL(static_cast<int>(awaitError(comm)), static_cast<int>(ncclRemoteError));
  BPS_NCCL(ncclCommAbort(comm));
  synchronize();
}

namespace {
// Makes the next copy of this rank's part to host memory fail.
void failNextCopy() { failCuda("cuMemcpyAsync", 1, 700); }
// A part takes 0.5 s, out and back.
void slowCopies() { setCopyRate(kGpuGroupCount * sizeof(float) * 2); }
}  // namespace

// A part is not summed across machines. Its owners do not poll for errors, and the other ranks wait for NCCL to gather
// the parts. No stream may go on as if the sum were right, and ranks that poll hear of the failure.
BPS_SCENARIO(NoRankGathersAFailedPart, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  if (self.rank == 3) failNextCopy();
  const Buffer data(kGpuGroupCount);
  // A late call may return the failure.
  const bool issued =
      ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()) == ncclSuccess;
  std::atomic<bool> gone{false};
  std::thread waiter([&] {
    synchronize();
    gone = true;
  });
  if (self.rank == 0) BPS_CHECK(awaitError(comm) != ncclSuccess);
  self.barrier(1);
  BPS_CHECK(awaitError(comm) != ncclSuccess);
  BPS_CHECK(contains(ncclGetLastError(comm), "cuMemcpyAsync"));
  BPS_CHECK(!gone || !issued);
  self.barrier(2);
  BPS_NCCL(ncclCommAbort(comm));
  waiter.join();
}

// A rank of the other machine dies, and no rank polls. A rank that completes its calls, or ends the communicator, does
// not wait for the dead rank.
BPS_SCENARIO(GpuGroupsCanBeDestroyedAfterARankDied, 4, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer data(kGpuGroupCount);
  callAfterRankDied(self, comm, data);
  if (self.rank == 0) BPS_CHECK(ncclCommFinalize(comm) != ncclSuccess);
  BPS_NCCL(ncclCommDestroy(comm));
  synchronize();
}

// The same for a part that this rank does not own.
BPS_SCENARIO(FinalizeCompletesCallsOfAGpuGroup, 4, ) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  if (self.rank == 3) slowCopies();
  const Buffer data(kGpuGroupCount, 1);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()));
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_CHECK(data.all(4));
  BPS_NCCL(ncclCommDestroy(comm));
}

// The other ranks wait for the rest of a partly issued call, and must not take the next call for it.
BPS_SCENARIO(APartlyIssuedCallFailsAllRanks, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  if (self.rank == 2) fakeNcclFail("ncclAllGather", ncclSystemError);
  const Buffer data(kGpuGroupCount);
  const auto call = [&] {
    return ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream());
  };
  const ncclResult_t issued = call();
  if (self.rank == 2) {
    BPS_EQUAL(static_cast<int>(issued), static_cast<int>(ncclSystemError));
    BPS_CHECK(call() != ncclSuccess);
  } else {
    BPS_EQUAL(static_cast<int>(awaitError(comm)), static_cast<int>(ncclSystemError));
    BPS_CHECK(contains(ncclGetLastError(comm), "rank 2") && contains(ncclGetLastError(comm), "in part"));
  }
  self.barrier(1);
  BPS_NCCL(ncclCommAbort(comm));
  synchronize();
}

// An abort lets this rank's stream go on, but not the streams of other ranks.
BPS_SCENARIO(NoRankGathersAnAbortedPart, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  if (self.rank == 3) slowCopies();
  const Buffer data(kGpuGroupCount);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()));
  self.barrier(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for the other part
  if (self.rank == 1) {
    BPS_NCCL(ncclCommAbort(comm));
    synchronize();
  }
  self.barrier(1);
  if (self.rank == 0) {
    std::atomic<bool> gone{false};
    std::thread waiter([&] {
      synchronize();
      gone = true;
    });
    BPS_CHECK(awaitError(comm) != ncclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    BPS_CHECK(!gone);
    BPS_NCCL(ncclCommAbort(comm));
    waiter.join();
  }
  self.barrier(2);
  if (self.rank >= 2) BPS_NCCL(ncclCommAbort(comm));
}

// All ranks hear of a failure in a communicator of a local GPU group, also ranks outside of it.
BPS_SCENARIO(ErrorsOfAGpuGroupFailTheCommunicator, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  for (const bool ofNccl : {true, false}) {
    const ncclComm_t comm = self.makeComm(ofNccl ? 0 : 1);
    negotiate(self, comm);
    self.barrier(ofNccl ? 0 : 2);
    const Buffer data(kGpuGroupCount);
    if (ofNccl) {
      if (self.rank == 0) fakeNcclFail("ncclCommGetAsyncError", ncclSystemError);  // of the group's communicator
    } else {
      if (self.rank == 0) failNextCopy();  // of the part that this rank owns
      (void)ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream());
    }
    const ncclResult_t heard = awaitError(comm);
    if (ofNccl && self.rank == 0) BPS_EQUAL(static_cast<int>(heard), static_cast<int>(ncclSystemError));
    // Rank 0 may hear of a failed copy directly, or from the other ranks.
    BPS_CHECK(heard != ncclUnhandledCudaError || contains(ncclGetLastError(comm), "cuMemcpyAsync"));
    self.barrier(ofNccl ? 1 : 3);
    BPS_NCCL(ncclCommAbort(comm));
    synchronize();
  }
}

// An abort comes while another thread completes the calls of the group, and then those of the communicator.
BPS_SCENARIO(AbortEndsAFinalizeOfAGpuGroup, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  if (self.rank < 2) {  // the other machine does not call
    const Buffer data(kGpuGroupCount);
    std::thread caller(
        [&] { (void)ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()); });
    if (onDevice()) caller.join();
    std::atomic<bool> finalizing{false};
    std::thread finalizer([&] {
      finalizing = true;
      BPS_CHECK(ncclCommFinalize(comm) != ncclInvalidArgument);  // its result for a handle that was freed
    });
    while (!finalizing) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // NCCL refuses a later call
    BPS_NCCL(ncclCommAbort(comm));
    finalizer.join();
    if (caller.joinable()) caller.join();
    synchronize();
  }
  self.barrier(1);
}

// NCCL's part of a call waits for a rank that has left. Rank 0 reports it, unless it is the one that has left.
namespace {
void waitForRanksThatLeft(const Rank& self, int waiting) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer data(kGpuGroupCount);
  if (self.rank == waiting)
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()));
  const ncclResult_t finalized = ncclCommFinalize(comm);
  if (self.rank != waiting) {
    BPS_NCCL(finalized);
    return;
  }
  BPS_EQUAL(static_cast<int>(finalized), static_cast<int>(ncclRemoteError));
  BPS_CHECK(contains(ncclGetLastError(comm), waiting == 0 ? "rank 1" : "rank 0"));
  BPS_CHECK(contains(ncclGetLastError(comm), "has left"));
  BPS_NCCL(ncclCommAbort(comm));
  synchronize();
}
}  // namespace

BPS_SCENARIO(ARankWaitingForRanksThatLeftFails, 4, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  waitForRanksThatLeft(self, 2);
}

BPS_SCENARIO(RankZeroWaitingForRanksThatLeftFails, 4, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  waitForRanksThatLeft(self, 0);
}

// The other ranks are done and leave. One rank copies its part back, in pieces, for longer than BPS_TIMEOUT.
BPS_SCENARIO(ASlowRankFinishesAfterItsPeersLeft, 4, {"BPS_TIMEOUT", "2"}, {"BPS_PARTITION_BYTES", "128K"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer data(kGpuGroupCount, 1);
  if (self.rank < 2) self.barrier(0);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()));
  if (self.rank >= 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // copied out
    if (self.rank == 3) setCopyRate(kGpuGroupCount * sizeof(float) / 2 / 2.5);
    self.barrier(0);
  }
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_CHECK(data.all(4));
}
