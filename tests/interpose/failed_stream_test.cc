// The stream of a failed call stands until the communicator is aborted, so nothing takes a buffer without the full sum
// for a result.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {

std::atomic<bool> laterWorkRan{false};

// The other ranks make a call, and rank 2 dies. Checks that the work behind this call waits after the ranks have
// learned of the failure, until `end` ends the communicator.
void streamStandsUntil(const Rank& self, ncclComm_t comm, bool inGroup, const std::function<void()>& end) {
  self.barrier(0);
  if (self.rank == 2) {
    self.barrier(3);
    ::_exit(0);
  }
  static const Buffer data(kLarge);
  if (inGroup) BPS_NCCL(ncclGroupStart());
  const ncclResult_t called = ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream());
  const ncclResult_t grouped = inGroup ? ncclGroupEnd() : ncclSuccess;
  self.barrier(3);  // rank 2 dies after the calls, so that no rank can know of it before its call
  launch([](void*) { laterWorkRan = true; }, nullptr);
  BPS_CHECK(called == ncclSuccess && grouped == ncclSuccess);
  BPS_EQUAL(static_cast<int>(awaitError(comm)), static_cast<int>(ncclRemoteError));
  BPS_CHECK(ncclCommFinalize(comm) != ncclSuccess);
  const Rank living{self.rank, 2, self.page};
  living.barrier(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  BPS_CHECK(!laterWorkRan && !idle(stream()));
  living.barrier(2);
  end();
  synchronize();
  BPS_CHECK(laterWorkRan);
}

}  // namespace

BPS_SCENARIO(AFailedCallHoldsItsStreamUntilTheAbort, 3, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  streamStandsUntil(self, comm, false, [&] { BPS_NCCL(ncclCommAbort(comm)); });
}

BPS_SCENARIO(AFailedGroupHoldsItsStreamUntilTheRevoke, 3, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  streamStandsUntil(self, comm, true, [&] { BPS_NCCL(ncclCommRevoke(comm, 0)); });
}

// A destroy after a failure acts like an abort.
BPS_SCENARIO(AFailedCallHoldsItsStreamUntilTheDestroy, 3, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  streamStandsUntil(self, comm, false, [&] { BPS_NCCL(ncclCommDestroy(comm)); });
}

BPS_SCENARIO(AFailedNonBlockingCallHoldsItsStreamUntilTheAbort, 3, {"BPS_TIMEOUT", "2"}, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  auto* nccls = reinterpret_cast<ncclConfig_t*>(&config);
  BPS_CHECK(ncclCommInitRankConfig(&comm, self.nRanks, self.id(0), self.rank, nccls) == ncclInProgress);
  const auto awaitReady = [&] {
    for (ncclResult_t state = ncclInProgress; state == ncclInProgress; std::this_thread::yield())
      BPS_NCCL(ncclCommGetAsyncError(comm, &state));
  };
  awaitReady();
  const Buffer data(kLarge);
  (void)ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclSum, comm, stream());
  awaitReady();
  synchronize();
  streamStandsUntil(self, comm, false, [&] { BPS_NCCL(ncclCommAbort(comm)); });
}
