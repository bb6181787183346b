// Communicators are created and destroyed in all the ways that NCCL offers.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {
ncclRedOp_t makeOp(ncclComm_t comm) {
  float factor = 2;
  ncclRedOp_t op = ncclSum;
  BPS_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
  return op;
}
}  // namespace

BPS_SCENARIO(CommunicatorsCreatedInAGroupAreServed, 2, ) {
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = self.id(0);
  BPS_NCCL(ncclGroupStart());
  BPS_NCCL(ncclCommInitRank(&comm, self.nRanks, id, self.rank));
  BPS_CHECK(comm == nullptr);
  BPS_NCCL(ncclGroupEnd());
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce:4096"));
}

BPS_SCENARIO(SplitAndShrunkCommunicatorsAreServed, 4, ) {
  const ncclComm_t all = self.makeComm();
  negotiate(self, all);
  ncclComm_t half = nullptr;
  BPS_NCCL(ncclCommSplit(all, self.rank % 2, 0, &half, nullptr));
  BPS_NCCL(allReduce(Rank{self.rank / 2, 2, self.page}, half, kLarge));
  ncclComm_t none = half;
  BPS_NCCL(ncclCommSplit(all, -1, 0, &none, nullptr));
  BPS_CHECK(none == nullptr);
  self.barrier(0);
  if (self.rank == 3) {  // rank 3 makes no further calls and leaves without a goodbye
    self.barrier(1);
    return;
  }
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce"));
  // A call that waits for rank 3 ends with the shrink.
  const Buffer data(kLarge);
  std::thread caller([&] {
    (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, all, stream());
    synchronize();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // NCCL refuses a call that starts after the shrink
  int lost = 3;
  ncclComm_t rest = nullptr;
  BPS_NCCL(ncclCommShrink(all, &lost, 1, &rest, nullptr, kShrinkAbort));
  caller.join();
  fakeNcclClearCalls();
  self.barrier(1);
  BPS_NCCL(allReduce(Rank{self.rank, 3, self.page}, rest, kLarge));
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce"));
}

BPS_SCENARIO(AReusedHandleIsANewCommunicator, 4, ) {
  ncclComm_t before = nullptr;
  for (int round = 0; round < 3; ++round) {  // each round has one rank less than the previous round
    const Rank here{self.rank, self.nRanks - round, self.page};
    if (here.rank >= here.nRanks) break;
    const ncclComm_t comm = here.makeComm(round);
    BPS_CHECK(before == nullptr || before == comm);
    BPS_NCCL(allReduce(here, comm, kLarge));
    BPS_NCCL(ncclCommDestroy(comm));
    before = comm;
  }
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce"));
}

BPS_SCENARIO(ARevokedCommunicatorPassesCallsToNccl, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  BPS_NCCL(ncclCommRevoke(comm, 0));
  self.barrier(1);
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclCommRevoke ncclAllReduce:4096 "));
  BPS_NCCL(ncclCommDestroy(comm));
  // A communicator without earlier calls does not negotiate after it is revoked, alone or in a
  // group.
  const ncclComm_t fresh = self.makeComm(1);
  BPS_NCCL(ncclRedOpDestroy(makeOp(fresh), fresh));  // makes bps keep a record of the communicator
  self.barrier(2);
  BPS_NCCL(ncclCommRevoke(fresh, 0));
  self.barrier(3);
  fakeNcclClearCalls();
  BPS_NCCL(allReduce(self, fresh, kLarge));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclAllReduce:4096 "));
}

BPS_SCENARIO(AnErrorOfNcclEndsTheFirstCall, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  fakeNcclFail("ncclAllGather", ncclRemoteError);
  BPS_CHECK(allReduce(self, comm, kLarge) == ncclRemoteError);
  BPS_NCCL(ncclCommAbort(comm));
}

BPS_SCENARIO(ADeadRankOfASharedMachineFailsAllRanks, 4, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"},
             {"BPS_NCCL_LOCAL", "off"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  if (self.rank == 3) ::_exit(0);
  BPS_CHECK(allReduce(self, comm, 64 * kLarge) == ncclRemoteError);
  BPS_CHECK(contains(ncclGetLastError(comm), "rank 3"));
  // All ranks must see that rank 3 failed before any rank aborts. Otherwise they would name the rank
  // that aborts as the culprit.
  Rank{self.rank, 3, self.page}.barrier(1);
  BPS_NCCL(ncclCommAbort(comm));
}

BPS_SCENARIO(ADeadRankFailsCallsWithoutAHang, 3, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  self.barrier(0);
  if (self.rank == 2) ::_exit(0);
  BPS_CHECK(allReduce(self, comm, kLarge) == ncclRemoteError);
  ncclResult_t state = ncclSuccess;
  BPS_NCCL(ncclCommGetAsyncError(comm, &state));
  BPS_EQUAL(static_cast<int>(state), static_cast<int>(ncclRemoteError));
  BPS_CHECK(contains(ncclGetLastError(comm), "rank 2"));
  // NCCL also reads the state through bps's hook, and NCCL must not see an error of bps.
  static const Buffer token(1);
  const cudaStream_t other = newStream();  // the stream of the failed call stands
  if (self.rank == 0) BPS_NCCL(ncclSend(token.data(), 1, ncclFloat32, 1, comm, other));
  else BPS_NCCL(ncclRecv(token.data(), 1, ncclFloat32, 0, comm, other));
  synchronize(other);
  // An abort of one rank would end unfinished calls of the other rank, so both ranks wait here.
  Rank{self.rank, 2, self.page}.barrier(1);
  BPS_NCCL(ncclCommAbort(comm));
}

BPS_SCENARIO(AProcessMayEndWithoutDestroying, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  if (!onDevice()) return;
  // The last call of rank 0 is still in flight when rank 0's process ends. Rank 1 has not made that
  // call yet.
  static const Buffer data(kLarge, 1);
  if (self.rank == 1) self.barrier(0);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()));
  if (self.rank == 0) {
    ++self.page->arrived[0];
    std::exit(0);
  }
  synchronize();
  BPS_CHECK(data.all(2));
  BPS_NCCL(ncclCommDestroy(comm));
}

BPS_SCENARIO(FinalizeCompletesCalls, 2, ) {
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer data(256 * kLarge, 1);
  for (int i = 0; i < 4; ++i)
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream()));
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_CHECK(data.all(16));
  BPS_NCCL(ncclCommDestroy(comm));
}
