#include "src/api/comm_handle.h"

#include <chrono>

#include "src/api/border.h"
#include "src/api/group.h"
#include "src/api/part.h"
#include "src/api/teaming.h"

// Who ends a communicator has made its waits end before, so the visits do not last.
bpsComm::~bpsComm() {
  if (worker.joinable()) worker.join();
  for (int inside = 1; !visits.compare_exchange_strong(inside, 0) && inside > 0; inside = 1)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  magic = 0;
}

namespace bps {

Result<bpsComm*> checkedHandle(bpsComm_t comm) {
  if (comm == nullptr) return badArgument("comm is NULL");
  if (comm->magic != bpsComm::kMagic) return badArgument("comm is not a communicator, or was destroyed");
  if (ofForkedChild(*comm)) return Status(Code::kInvalidUsage, "comm belongs to the process that forked this one off");
  return comm;
}

Result<Visit> Visit::of(bpsComm_t comm) {
  bpsComm* handle = BPS_TRY(checkedHandle(comm));
  int inside = handle->visits.load();
  while (inside > 0)
    if (handle->visits.compare_exchange_weak(inside, inside + 1)) return Visit(handle);
  return badArgument("comm is being freed");
}

nccl::Team* teamOf(const bpsComm& handle) {
  return handle.state.load(std::memory_order_acquire) == bpsComm::State::kReady ? handle.team.get() : nullptr;
}

Result<Visit> readyCommunicator(bpsComm_t comm) {
  Visit visit = BPS_TRY(Visit::of(comm));
  switch (visit.handle().state.load(std::memory_order_acquire)) {
    case bpsComm::State::kReady:
      return visit;
    case bpsComm::State::kFailed:
      return visit.handle().error.get();
    case bpsComm::State::kStarting:
      break;
  }
  return badArgument("comm is not ready: bpsCommGetAsyncError still says bpsInProgress");
}

Status runStart(bpsComm& handle) {
  Status started = guarded([&]() -> Status {
    BPS_TRY(handle.communicator->start());
    return teamUp(handle);
  });
  if (!started.ok()) handle.error.set(started);
  handle.state.store(started.ok() ? bpsComm::State::kReady : bpsComm::State::kFailed, std::memory_order_release);
  return started;
}

namespace {

Status runAside(bpsComm& handle) {
  Status begun = guarded([&] {
    handle.worker = std::thread([&handle] {
      const Status started = runStart(handle);
      if (!started.ok()) logWarn(Subsystem::kInit, "communicator not started: {}", started.message());
    });
  });
  return begun.ok() ? Status(Code::kInProgress, "starting") : std::move(begun);
}

}  // namespace

Status startHandle(bpsComm_t* out, std::unique_ptr<bpsComm> handle) {
  *out = handle.release();
  const Visit use = BPS_TRY(Visit::of(*out));
  const bool putOff = (*out)->blocking && Group::ofThisThread().open();
  Status started = putOff             ? Group::ofThisThread().putOffStart(out)
                   : (*out)->blocking ? runStart(**out)
                                      : runAside(**out);
  if (started.ok() || started.code() == Code::kInProgress) return started;
  *out = nullptr;
  release(use.handle());
  return started;
}

bool ofForkedChild(const bpsComm& handle) { return handle.forks != processForks(); }

}  // namespace bps
