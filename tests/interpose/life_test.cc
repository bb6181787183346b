// Communicators come and go in all the ways that NCCL has.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {
void waitUntilReady(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    BPS_NCCL(ncclCommGetAsyncError(comm, &state));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  BPS_NCCL(state);
}
ncclRedOp_t makeOp(ncclComm_t comm) {
  float factor = 2;
  ncclRedOp_t op = ncclSum;
  BPS_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
  return op;
}
bpsConfig_t nonBlocking() {
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}
}  // namespace

BPS_SCENARIO(NonBlockingCommunicators, 2, ) {
  bpsConfig_t config = nonBlocking();
  ncclComm_t comm = nullptr;
  auto* nccls = reinterpret_cast<ncclConfig_t*>(&config);
  BPS_CHECK(ncclCommInitRankConfig(&comm, self.nRanks, self.id(0), self.rank, nccls) == ncclInProgress);
  const Buffer early(1);  // not ready: NCCL's to refuse
  BPS_CHECK(ncclAllReduce(early.data(), early.data(), 1, ncclFloat32, ncclSum, comm, stream()) == ncclInvalidArgument);
  waitUntilReady(comm);
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(!has(callsOfNccl(), "ncclAllReduce:4096"));
  const Buffer data(kSmall, 1);
  BPS_CHECK(ncclAllReduce(data.data(), data.data(), kSmall, ncclFloat32, ncclSum, comm, stream()) == ncclInProgress);
  waitUntilReady(comm);
  synchronize();
  BPS_CHECK(data.all(2));
}

BPS_SCENARIO(CommunicatorsMadeInAGroup, 2, ) {
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = self.id(0);
  BPS_NCCL(ncclGroupStart());
  BPS_NCCL(ncclCommInitRank(&comm, self.nRanks, id, self.rank));
  BPS_CHECK(comm == nullptr);
  BPS_NCCL(ncclGroupEnd());
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(!has(callsOfNccl(), "ncclAllReduce:4096"));
}

BPS_SCENARIO(SplitAndShrunkCommunicatorsAreServed, 4, ) {
  const ncclComm_t all = self.makeComm();
  settle(self, all);
  ncclComm_t half = nullptr;
  BPS_NCCL(ncclCommSplit(all, self.rank % 2, 0, &half, nullptr));
  BPS_NCCL(allReduce(Rank{self.rank / 2, 2, self.page}, half, kLarge));
  ncclComm_t none = half;
  BPS_NCCL(ncclCommSplit(all, -1, 0, &none, nullptr));
  BPS_CHECK(none == nullptr);
  self.meet(0);
  if (self.rank == 3) {  // calls no more, and leaves without a word
    self.meet(1);
    return;
  }
  BPS_CHECK(!has(callsOfNccl(), "ncclAllReduce"));
  // A call that waits for it ends with the shrinking.
  const Buffer data(kLarge);
  std::thread caller([&] {
    (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, all, stream());
    synchronize();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // should it come later, NCCL refuses it
  int lost = 3;
  ncclComm_t rest = nullptr;
  BPS_NCCL(ncclCommShrink(all, &lost, 1, &rest, nullptr, kShrinkAbort));
  caller.join();
  fakeNcclForget();
  self.meet(1);
  BPS_NCCL(allReduce(Rank{self.rank, 3, self.page}, rest, kLarge));
  BPS_CHECK(!has(callsOfNccl(), "ncclAllReduce"));
}

BPS_SCENARIO(AHandleMayComeBackAsAnotherCommunicator, 4, ) {
  ncclComm_t before = nullptr;
  for (int round = 0; round < 3; ++round) {  // each of one rank less
    const Rank here{self.rank, self.nRanks - round, self.page};
    if (here.rank >= here.nRanks) break;
    const ncclComm_t comm = here.makeComm(round);
    BPS_CHECK(before == nullptr || before == comm);
    BPS_NCCL(allReduce(here, comm, kLarge));
    BPS_NCCL(ncclCommDestroy(comm));
    before = comm;
  }
  BPS_CHECK(!has(callsOfNccl(), "ncclAllReduce"));
}

BPS_SCENARIO(ARevokedCommunicatorIsNcclsAgain, 2, ) {
  const ncclComm_t comm = self.makeComm();
  settle(self, comm);
  self.meet(0);
  BPS_NCCL(ncclCommRevoke(comm, 0));
  self.meet(1);
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_EQUAL(callsOfNccl(), std::string("ncclCommRevoke ncclAllReduce:4096 "));
  BPS_NCCL(ncclCommDestroy(comm));
  // One that never had a call does not settle any more, alone or in a group.
  const ncclComm_t fresh = self.makeComm(1);
  BPS_NCCL(ncclRedOpDestroy(makeOp(fresh), fresh));  // we know of it
  self.meet(2);
  BPS_NCCL(ncclCommRevoke(fresh, 0));
  self.meet(3);
  fakeNcclForget();
  BPS_NCCL(allReduce(self, fresh, kLarge));
  BPS_EQUAL(callsOfNccl(), std::string("ncclAllReduce:4096 "));
}

BPS_SCENARIO(AnErrorOfNcclEndsTheFirstCall, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  fakeNcclFail("ncclAllGather", ncclRemoteError);
  BPS_CHECK(allReduce(self, comm, kLarge) == ncclRemoteError);
  BPS_NCCL(ncclCommAbort(comm));
}

BPS_SCENARIO(ADeadRankOfASharedMachineIsAnErrorOnAll, 4, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"},
             {"BPS_NCCL_LOCAL", "off"}) {
  self.shareMachines(2);
  const ncclComm_t comm = self.makeComm();
  settle(self, comm);
  self.meet(0);
  if (self.rank == 3) ::_exit(0);
  BPS_CHECK(allReduce(self, comm, 64 * kLarge) == ncclRemoteError);
  BPS_CHECK(has(ncclGetLastError(comm), "rank 3"));
  Rank{self.rank, 3, self.page}.meet(1);  // who aborts before the others have heard would be the culprit
  BPS_NCCL(ncclCommAbort(comm));
}

BPS_SCENARIO(ADeadRankIsAnErrorAndNotAHang, 3, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  settle(self, comm);
  self.meet(0);
  if (self.rank == 2) ::_exit(0);
  BPS_CHECK(allReduce(self, comm, kLarge) == ncclRemoteError);
  ncclResult_t state = ncclSuccess;
  BPS_NCCL(ncclCommGetAsyncError(comm, &state));
  BPS_EQUAL(static_cast<int>(state), static_cast<int>(ncclRemoteError));
  BPS_CHECK(has(ncclGetLastError(comm), "rank 2"));
  // NCCL asks for the state too, through our hook, and must not hear of what is not its own.
  const Buffer token(1);
  if (self.rank == 0) BPS_NCCL(ncclSend(token.data(), 1, ncclFloat32, 1, comm, stream()));
  else BPS_NCCL(ncclRecv(token.data(), 1, ncclFloat32, 0, comm, stream()));
  synchronize();
  Rank{self.rank, 2, self.page}.meet(1);  // the other's abort would end what is not done
  BPS_NCCL(ncclCommAbort(comm));
}

namespace {
// Aborts the communicator while another thread is in `call`; the time that the abort took. Should the call come late,
// it finds the communicator aborted, and fails as well.
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
void abortWithAStoppedServer(const Rank& self) {
  const ncclComm_t comm = self.makeComm();
  settle(self, comm);
  const char* server = std::getenv("FAKE_NCCL_STOP_PID");
  const pid_t pid = server != nullptr ? std::atoi(server) : 0;
  self.meet(0);
  if (self.rank == 0 && pid > 0) BPS_CHECK(::kill(pid, SIGSTOP) == 0);
  self.meet(1);
  const Buffer data(1U << 20);
  const auto took = abortDuring(comm, [&] {
    const ncclResult_t called =
        ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream());
    if (!onDevice()) BPS_CHECK(pid <= 0 || called != ncclSuccess);
  });
  synchronize();  // the stream goes on
  self.meet(2);
  if (self.rank == 0 && pid > 0) BPS_CHECK(::kill(pid, SIGCONT) == 0);
  BPS_CHECK(took < std::chrono::seconds(2));
  self.meet(3);
  BPS_NCCL(allReduce(self, self.makeComm(1), kLarge));  // the process goes on
}
}  // namespace

BPS_SCENARIO(AbortEndsACallThatAStoppedServerHoldsUp, 2, {"BPS_TIMEOUT", "60"}, {"BPS_DIRECT_BYTES", "0"},
             {"BPS_EAGER_BYTES", "0"}, {"BPS_DEBUG", "NONE"}) {
  abortWithAStoppedServer(self);
}

BPS_SCENARIO(AbortEndsACallOfRanksThatShareMachines, 4, {"BPS_TIMEOUT", "60"}, {"BPS_DIRECT_BYTES", "0"},
             {"BPS_EAGER_BYTES", "0"}, {"BPS_DEBUG", "NONE"}) {
  self.shareMachines(2);
  abortWithAStoppedServer(self);
}

namespace {
// A thread that issues calls faster than a standing stream takes them waits for room in the driver's queue.
void abortBehindAFullQueue(const Rank& self) {
  const ncclComm_t comm = self.makeComm();
  settle(self, comm);
  self.meet(0);
  const Buffer data(1U << 18);
  const bool calls = self.rank < self.nRanks / 2 && onDevice();  // without the others these do not end
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
  self.meet(1);
  BPS_NCCL(ncclCommAbort(comm));
  BPS_CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
  caller.join();
  synchronize();
  BPS_EQUAL(issued > 0, calls);
}
}  // namespace

// What holds up the stream is another communicator's call, which is ended after it.
BPS_SCENARIO(AbortEndsACallBehindAnothersInAFullQueue, 2, {"FAKE_CUDA_DEPTH", "16"}, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t before = self.makeComm(0), behind = self.makeComm(1);
  settle(self, before);
  settle(self, behind);
  self.meet(0);
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
  self.meet(1);
}

BPS_SCENARIO(AbortEndsACallForWhichTheQueueHasNoRoom, 2, {"FAKE_CUDA_DEPTH", "16"}, {"BPS_DEBUG", "NONE"}) {
  abortBehindAFullQueue(self);
}

// A call and a half fill the queue: the caller stands where bps all-reduces his part.
BPS_SCENARIO(AbortEndsACallOfATeamForWhichTheQueueHasNoRoom, 4, {"FAKE_CUDA_DEPTH", "9"}, {"FAKE_CUDA_QUEUES", "1"},
             {"BPS_DEBUG", "NONE"}) {
  self.shareMachines(2);
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
  self.meet(0);  // rank 1 never called
}

// NCCL frees what it aborts: nobody of ours may be in one of its functions then, or call another later.
BPS_SCENARIO(NobodyOfOursIsInNcclWhenItIsAborted, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  if (self.rank == 0 && onDevice()) {  // on the host the call waits for rank 1 inside NCCL, which only the abort ends
    const Buffer data(kLarge);
    stream();
    fakeNcclSlowLooks(50);
    std::thread caller(
        [&] { (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()); });
    while (fakeNcclLooks() == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // and is looking again, or not: both must be right
    BPS_NCCL(ncclCommAbort(comm));
    const unsigned looks = fakeNcclLooks();
    caller.join();
    BPS_EQUAL(fakeNcclLooks(), looks);
  }
  self.meet(0);
}

BPS_SCENARIO(AbortEndsAFinalizeThatWaits, 2, {"BPS_DEBUG", "NONE"}) {
  for (int round = 0; round < 3; ++round) {
    const ncclComm_t comm = self.makeComm(round);
    settle(self, comm);
    self.meet(2 * round);
    if (self.rank == 0) {  // rank 1 does not call, so neither the call nor what waits for it ends by itself
      const Buffer data(kLarge);
      std::thread caller(
          [&] { (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()); });
      if (onDevice()) caller.join();  // it does not wait
      fakeNcclForget();
      ncclResult_t finalized = ncclSuccess;
      const auto took = abortDuring(comm, [&] { finalized = ncclCommFinalize(comm); });
      // NCCL frees what it aborts; only a finalize that came too late, by the test's fault, gets there.
      BPS_CHECK(finalized == ncclSuccess || !has(callsOfNccl(), "ncclCommFinalize"));
      BPS_CHECK(took < std::chrono::seconds(2));
      if (caller.joinable()) caller.join();
      synchronize();
    }
    self.meet(2 * round + 1);
  }
}

BPS_SCENARIO(AProcessMayEndWithoutDestroying, 2, ) {
  const ncclComm_t comm = self.makeComm();
  settle(self, comm);
  if (!onDevice()) return;
  // Its last call is still under way when it ends, and the others do not even call yet.
  static const Buffer data(kLarge, 1);
  if (self.rank == 1) self.meet(0);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream()));
  if (self.rank == 0) {
    ++self.page->arrived[0];
    std::exit(0);
  }
  synchronize();
  BPS_CHECK(data.all(2));
  BPS_NCCL(ncclCommDestroy(comm));
}

BPS_SCENARIO(AnAbortElsewhereEndsTheFirstCall, 2, {"BPS_DEBUG", "NONE"}) {
  const ncclComm_t comm = self.makeComm();
  if (self.rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    BPS_NCCL(ncclCommAbort(comm));
    return;
  }
  // As NCCL says it: of a call that waits, or of one that comes when all is over.
  const ncclResult_t called = allReduce(self, comm, kLarge);
  BPS_CHECK(called == ncclRemoteError || called == ncclInvalidArgument);
}

// The calls of a stream are not waited for before, and must not be cut off.
BPS_SCENARIO(FinalizeCompletesCalls, 2, ) {
  const ncclComm_t comm = self.makeComm();
  settle(self, comm);
  const Buffer data(256 * kLarge, 1);
  for (int i = 0; i < 4; ++i)
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream()));
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_CHECK(data.all(16));
  BPS_NCCL(ncclCommDestroy(comm));
}
