// Failures in a local GPU group or while the group waits. Every rank receives the failure, and no
// rank gets a buffer without the full sum.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {
// The last rank dies, and the other ranks make a call.
void callAfterRankDied(const Rank& self, ncclComm_t comm, const Buffer& data) {
  self.barrier(0);
  if (self.rank == 3) ::_exit(0);
  (void)ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream());
}
}  // namespace

// NCCL waits on the device for the dead rank, as NCCL does without bps. All ranks receive the
// failure and can abort.
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
// Makes the next copy to host memory on this rank fail.
void failNextCopy() { failCuda("cuMemcpyAsync", 1, 700); }
// Makes the copies to the host and back take half a second.
void slowCopies() { setCopyRate(kGpuGroupCount * sizeof(float) * 2); }
}  // namespace

// One part of the buffer is not summed across machines, because a copy of this part fails. The
// ranks that sum this part do not ask for errors, and the other ranks wait until NCCL gathers the
// parts. No stream may continue as if the sum were complete. A rank that asks for errors receives
// the error.
BPS_SCENARIO(NoRankGathersAFailedPart, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  if (self.rank == 3) failNextCopy();
  const Buffer data(kGpuGroupCount);
  // If a rank makes its call late, the call may already return the error.
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

// A rank of the second machine dies, and no rank asks for errors. ncclCommFinalize and
// ncclCommDestroy do not wait for the dead rank.
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

// Finalize also completes the parts that other ranks of the machine sum.
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

// The other ranks wait for the rest of the call. The other ranks must not mistake the next call for
// the rest of this call.
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

// An abort releases the stream of the aborting rank. The other ranks must not take the data that
// this stream then sends for a sum.
BPS_SCENARIO(NoRankGathersAnAbortedPart, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  if (self.rank == 3) slowCopies();
  const Buffer data(kGpuGroupCount);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()));
  self.barrier(0);
  // Now the part of rank 2 is complete, but the part of rank 3 is not.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
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

// An error in a communicator that the local GPU group uses internally reaches all ranks, even ranks
// that do not use that communicator.
BPS_SCENARIO(ErrorsOfAGpuGroupFailTheCommunicator, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  for (const bool ofNccl : {true, false}) {
    const ncclComm_t comm = self.makeComm(ofNccl ? 0 : 1);
    negotiate(self, comm);
    self.barrier(ofNccl ? 0 : 2);
    const Buffer data(kGpuGroupCount);
    if (ofNccl) {
      // This fails in the NCCL communicator of the local GPU group.
      if (self.rank == 0) fakeNcclFail("ncclCommGetAsyncError", ncclSystemError);
    } else {
      if (self.rank == 0) failNextCopy();  // fails the copy of the part that rank 0 sums
      (void)ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream());
    }
    const ncclResult_t error = awaitError(comm);
    if (ofNccl && self.rank == 0) BPS_EQUAL(static_cast<int>(error), static_cast<int>(ncclSystemError));
    // Rank 0 may detect the failed copy first, or it may receive the failure from ranks that it has
    // told.
    BPS_CHECK(error != ncclUnhandledCudaError || contains(ncclGetLastError(comm), "cuMemcpyAsync"));
    self.barrier(ofNccl ? 1 : 3);
    BPS_NCCL(ncclCommAbort(comm));
    synchronize();
  }
}

// A rank aborts while another thread completes the calls of the local GPU group and then of the
// communicator.
BPS_SCENARIO(AbortEndsAFinalizeOfAGpuGroup, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  if (self.rank < 2) {  // the second machine does not call
    const Buffer data(kGpuGroupCount);
    std::thread caller(
        [&] { (void)ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()); });
    if (onDevice()) caller.join();
    std::atomic<bool> finalizing{false};
    std::thread finalizer([&] {
      finalizing = true;
      BPS_CHECK(ncclCommFinalize(comm) != ncclInvalidArgument);  // the result that a freed handle gives
    });
    while (!finalizing) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // NCCL refuses a finalize that starts after the abort
    BPS_NCCL(ncclCommAbort(comm));
    finalizer.join();
    if (caller.joinable()) caller.join();
    synchronize();
  }
  self.barrier(1);
}

// NCCL waits on the device for a rank that has left. While rank 0 is present, it reports which
// ranks have left.
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

// The other ranks finish and leave. Rank 3 then copies its part back in pieces, which takes longer
// than BPS_TIMEOUT.
BPS_SCENARIO(ASlowRankFinishesAfterItsPeersLeft, 4, {"BPS_TIMEOUT", "2"}, {"BPS_PARTITION_BYTES", "128K"}) {
  self.placeRanksOnMachines(2);
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer data(kGpuGroupCount, 1);
  if (self.rank < 2) self.barrier(0);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()));
  if (self.rank >= 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // bps has copied the data to the host
    if (self.rank == 3) setCopyRate(kGpuGroupCount * sizeof(float) / 2 / 2.5);
    self.barrier(0);
  }
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_CHECK(data.all(4));
}
