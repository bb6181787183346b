#include "src/api/comm_handle.h"

#include <chrono>

#include "src/api/border.h"
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

namespace {

Status runStart(bpsComm& handle) {
  Status started = guarded([&]() -> Status {
    BPS_TRY(handle.communicator->start());
    return teamUp(handle);
  });
  if (!started.ok()) handle.error.set(started);
  handle.state.store(started.ok() ? bpsComm::State::kReady : bpsComm::State::kFailed, std::memory_order_release);
  return started;
}

Status runBlocking(bpsComm_t* out) {
  Status started = runStart(**out);
  if (started.ok()) return {};
  delete *out;
  *out = nullptr;
  return started;
}

}  // namespace

Status startHandle(bpsComm_t* out, std::unique_ptr<bpsComm> handle) {
  *out = handle.release();
  if (!(*out)->blocking) {
    bpsComm* self = *out;
    self->worker = std::thread([self] {
      const Status started = runStart(*self);
      if (!started.ok()) logWarn(Subsystem::kInit, "communicator not started: {}", started.message());
    });
    return {Code::kInProgress, "starting"};
  }
  if (Group::ofThisThread().open()) {
    Group::ofThisThread().putOffStart([out] { return runBlocking(out); });
    return {};
  }
  return runBlocking(out);
}

Group& Group::ofThisThread() {
  thread_local Group group;
  return group;
}

Status Group::end() {
  if (depth_ == 0) return {Code::kInvalidUsage, "bpsGroupEnd without bpsGroupStart"};
  if (--depth_ > 0) return {};
  const auto starts = std::exchange(starts_, {});
  const auto calls = std::exchange(calls_, {});
  std::vector<Status> outcomes(starts.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < starts.size(); ++i) threads.emplace_back([&, i] { outcomes[i] = guarded(starts[i]); });
  for (std::thread& thread : threads) thread.join();
  Status first;
  const auto note = [&first](Status outcome) {
    if (first.ok() && !outcome.ok()) first = std::move(outcome);
  };
  for (Status& outcome : outcomes) note(std::move(outcome));
  for (const auto& call : calls) note(call());
  return first;
}

}  // namespace bps
