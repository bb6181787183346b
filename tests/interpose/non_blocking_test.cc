// Non-blocking communicators: a function that would wait returns ncclInProgress. One thread can
// therefore poll and abort.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {

using std::chrono::steady_clock;

ncclResult_t stateOf(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  BPS_NCCL(ncclCommGetAsyncError(comm, &state));
  return state;
}

// Polls until the state is not ncclInProgress, or until the scenario's time limit ends the process.
ncclResult_t outcomeOf(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    state = stateOf(comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

ncclResult_t issue(ncclComm_t comm, const Buffer& data) {
  return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream());
}

ncclComm_t beginComm(const Rank& self, int number = 0) {
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  auto* nccls = reinterpret_cast<ncclConfig_t*>(&config);
  BPS_CHECK(ncclCommInitRankConfig(&comm, self.nRanks, self.id(number), self.rank, nccls) == ncclInProgress);
  return comm;
}

ncclComm_t makeNonBlocking(const Rank& self, int number = 0) {
  const ncclComm_t comm = beginComm(self, number);
  BPS_NCCL(outcomeOf(comm));
  return comm;
}

// Makes a communicator and completes a first call. After the first call, all ranks know which calls
// bps serves.
ncclComm_t makeSettled(const Rank& self) {
  const ncclComm_t comm = makeNonBlocking(self);
  const Buffer data(kLarge, 1);
  (void)issue(comm, data);
  BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(data.all(static_cast<float>(self.nRanks)));
  self.barrier(31);
  return comm;
}

// Checks that the communicator stays in progress while the other rank has not called yet.
void expectStaysInProgress(ncclComm_t comm) {
  for (int look = 0; look < 20; ++look) {
    BPS_EQUAL(static_cast<int>(stateOf(comm)), static_cast<int>(ncclInProgress));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void expectPromptAbort(ncclComm_t comm) {
  const auto start = steady_clock::now();
  BPS_NCCL(ncclCommAbort(comm));
  BPS_CHECK(steady_clock::now() - start < std::chrono::seconds(2));
  synchronize();
}

}  // namespace

BPS_SCENARIO(NonBlockingCommunicatorsAreServed, 2, ) {
  const ncclComm_t comm = beginComm(self);
  const Buffer early(1);  // the communicator is not ready, so NCCL refuses a call with this buffer
  BPS_CHECK(issue(comm, early) == ncclInvalidArgument);
  BPS_NCCL(outcomeOf(comm));
  const Buffer large(kLarge, 1);
  (void)issue(comm, large);
  BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(large.all(2));
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce:4096"));
  const Buffer data(kSmall, 1);
  BPS_CHECK(issue(comm, data) == ncclInProgress);
  BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(data.all(2));
}

// Without CUDA the test cannot run, because the fake NCCL itself waits in the call.
BPS_SCENARIO(AFirstCallOfANonBlockingCommunicatorDoesNotWait, 2, ) {
  if (!onDevice()) return;
  const ncclComm_t comm = makeNonBlocking(self);
  const Buffer data(kLarge, 1);
  if (self.rank == 0) {
    BPS_CHECK(issue(comm, data) == ncclInProgress);
    expectStaysInProgress(comm);
    BPS_CHECK(issue(comm, data) == ncclInvalidArgument);
    BPS_CHECK(ncclCommFinalize(comm) == ncclInvalidArgument);
  }
  self.barrier(0);
  if (self.rank == 1) (void)issue(comm, data);  // does not wait for any rank
  BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(data.all(2));
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce"));
}

BPS_SCENARIO(AFirstGroupOfNonBlockingCommunicatorsDoesNotWait, 2, ) {
  if (!onDevice()) return;
  const ncclComm_t comms[] = {makeNonBlocking(self, 0), makeNonBlocking(self, 1)};
  const Buffer first(kLarge, 1), second(kLarge, 2), small(kSmall, 3);
  const auto group = [&] {
    BPS_NCCL(ncclGroupStart());
    BPS_NCCL(issue(comms[0], first));
    BPS_NCCL(issue(comms[1], second));
    BPS_NCCL(issue(comms[1], small));
    return ncclGroupEnd();
  };
  if (self.rank == 0) {
    BPS_CHECK(group() == ncclInProgress);
    for (const ncclComm_t comm : comms) expectStaysInProgress(comm);
  }
  self.barrier(0);
  if (self.rank == 1) (void)group();
  for (const ncclComm_t comm : comms) BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(first.all(2) && second.all(4) && small.all(6));
}

// A program may free its operation as soon as the call has returned, although NCCL has not received
// the call yet.
BPS_SCENARIO(AnOperationIsKeptForAFirstCallThatIsInProgress, 2, ) {
  if (!onDevice()) return;
  const ncclComm_t comm = makeNonBlocking(self);
  const Buffer data(kSmall, 1);
  float factor = 3;
  ncclRedOp_t op = ncclSum;
  BPS_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
  if (self.rank == 1) self.barrier(0);
  (void)ncclAllReduce(data.data(), data.data(), kSmall, ncclFloat32, op, comm, stream());
  if (self.rank == 0) {
    BPS_CHECK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm) ==
              ncclInvalidArgument);
    BPS_NCCL(ncclRedOpDestroy(op, comm));
    self.barrier(0);
  }
  BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(data.all(6));
  if (self.rank == 0) BPS_CHECK(contains(takeNcclCalls(), "ncclAllReduce:8 ncclRedOpDestroy "));
}

BPS_SCENARIO(AnAbortEndsAFirstCallThatIsInProgress, 2, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  const ncclComm_t comm = makeNonBlocking(self);
  const Buffer data(kSmall, 1);
  if (self.rank == 0) {
    BPS_CHECK(issue(comm, data) == ncclInProgress);
    BPS_CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
    expectPromptAbort(comm);
    (void)takeNcclCalls();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    BPS_EQUAL(takeNcclCalls(), "");  // bps has freed the communicator
  }
  self.barrier(0);
}

// Each rank can abort, no matter how long the first calls of the other ranks wait.
BPS_SCENARIO(AbortsEndAFirstGroupThatIsInProgress, 2, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  ncclComm_t comms[6];
  for (int i = 0; i < 6; ++i) comms[i] = makeNonBlocking(self, i);
  const Buffer data(kLarge, 1);
  if (self.rank == 0) {
    BPS_NCCL(ncclGroupStart());
    for (const ncclComm_t comm : comms) BPS_NCCL(issue(comm, data));
    BPS_CHECK(ncclGroupEnd() == ncclInProgress);
    const auto start = steady_clock::now();
    for (const ncclComm_t comm : comms) expectPromptAbort(comm);
    BPS_CHECK(steady_clock::now() - start < std::chrono::seconds(1));
  }
  self.barrier(0);
}

// If an error occurs after a call has returned, the caller receives the error when it polls.
BPS_SCENARIO(ADeferredFirstCallReportsItsFailure, 2, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  const ncclComm_t comm = makeNonBlocking(self);
  const Buffer data(kLarge, 1);
  self.barrier(0);
  if (self.rank == 0) {
    BPS_CHECK(issue(comm, data) == ncclInProgress);
    fakeNcclFail("ncclAllGather", ncclSystemError);
  }
  self.barrier(1);
  if (self.rank == 1) (void)issue(comm, data);
  if (self.rank == 0) BPS_EQUAL(static_cast<int>(outcomeOf(comm)), static_cast<int>(ncclSystemError));
  self.barrier(2);
  expectPromptAbort(comm);
}

BPS_SCENARIO(AFinalizeOfANonBlockingCommunicatorDoesNotWait, 2, ) {
  if (!onDevice()) return;
  const ncclComm_t comm = makeSettled(self);
  (void)takeNcclCalls();
  const Buffer data(kLarge, 1);
  if (self.rank == 0) {
    BPS_NCCL(issue(comm, data));
    BPS_CHECK(ncclCommFinalize(comm) == ncclInProgress);
    expectStaysInProgress(comm);
  }
  self.barrier(0);
  if (self.rank == 1) {
    BPS_NCCL(issue(comm, data));
    BPS_CHECK(ncclCommFinalize(comm) == ncclInProgress);
  }
  BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(data.all(2));
  BPS_NCCL(ncclCommDestroy(comm));
  const std::string calls = takeNcclCalls();
  BPS_CHECK(contains(calls, "ncclCommFinalize") && contains(calls, "ncclCommDestroy") &&
            !contains(calls, "ncclCommAbort"));
}

// Finalize stays in progress even if NCCL has nothing left to do.
BPS_SCENARIO(FinalizeStaysInProgressUntilBpsIsDone, 2, {"FAKE_NCCL_PROMPT_FINALIZE", "1"}) {
  if (!onDevice()) return;
  const ncclComm_t comm = makeSettled(self);
  const Buffer data(kLarge, 1);
  if (self.rank == 1) self.barrier(0);
  BPS_NCCL(issue(comm, data));
  BPS_CHECK(ncclCommFinalize(comm) == ncclInProgress);
  BPS_CHECK(issue(comm, data) == ncclInvalidArgument);
  if (self.rank == 0) {
    expectStaysInProgress(comm);
    self.barrier(0);
  }
  BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(data.all(2));
  BPS_NCCL(ncclCommDestroy(comm));
}

// A program may destroy a communicator without finalizing it.
BPS_SCENARIO(ADestroyOfANonBlockingCommunicatorCompletesItsCalls, 2, ) {
  const ncclComm_t comm = makeSettled(self);
  const Buffer data(kLarge, 1);
  BPS_NCCL(issue(comm, data));
  BPS_NCCL(ncclCommDestroy(comm));
  BPS_CHECK(data.all(2));
}

BPS_SCENARIO(AnAbortEndsAFinalizeThatIsInProgress, 2, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  const ncclComm_t comm = makeSettled(self);
  if (self.rank == 0) {
    const Buffer data(kLarge, 1);
    BPS_NCCL(issue(comm, data));
    BPS_CHECK(ncclCommFinalize(comm) == ncclInProgress);
    expectPromptAbort(comm);
  }
  self.barrier(0);
}

// With a local GPU group, a non-blocking call could return before the call is in its stream.
BPS_SCENARIO(NonBlockingCommunicatorsHaveNoGpuGroups, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = makeNonBlocking(self);
  const Buffer data(kGpuGroupCount, 1);
  (void)issue(comm, data);
  BPS_NCCL(outcomeOf(comm));
  synchronize();
  BPS_CHECK(data.all(4));
  BPS_CHECK(!contains(takeNcclCalls(), "ncclReduceScatter"));
}

// A thread of bps must not call CUDA while the process ends.
BPS_SCENARIO(AProcessMayEndDuringAFirstCall, 2, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  const auto look = [] {  // runs after the exit handlers of bps
    const uint64_t before = cudaCallCount("cuStreamQuery");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (cudaCallCount("cuStreamQuery") != before) ::_exit(1);
  };
  BPS_CHECK(std::atexit(look) == 0);
  const ncclComm_t comm = makeNonBlocking(self);
  const auto* data = new Buffer(kLarge, 1);  // never freed, because freeing it would wait for NCCL
  if (self.rank == 0) {
    BPS_CHECK(issue(comm, *data) == ncclInProgress);
    ++self.page->arrived[0];
    std::exit(0);
  }
  self.barrier(0);
}

// The first call of one communicator still waits for its peer and keeps the group open. The peer of
// the other communicator has called.
BPS_SCENARIO(AProcessMayEndDuringAFirstGroup, 2, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  static steady_clock::time_point exits;
  BPS_CHECK(std::atexit([] {
              if (steady_clock::now() - exits > std::chrono::seconds(2)) ::_exit(1);
            }) == 0);
  const ncclComm_t comms[] = {makeNonBlocking(self, 0), makeNonBlocking(self, 1)};
  const auto* data = new Buffer(kLarge, 1);
  if (self.rank == 1) {
    self.barrier(0);
    (void)issue(comms[self.page->arrived[2]], *data);
    self.barrier(1);
    ::_exit(0);
  }
  // bps's table is sorted by handle, so the communicator with the lower handle comes first.
  self.page->arrived[2] = comms[0] < comms[1] ? 0 : 1;
  BPS_NCCL(ncclGroupStart());
  for (const ncclComm_t comm : comms) BPS_NCCL(issue(comm, *data));
  BPS_CHECK(ncclGroupEnd() == ncclInProgress);
  self.barrier(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // bps has run the first call whose peer has called
  ++self.page->arrived[1];
  exits = steady_clock::now();
  std::exit(0);
}
