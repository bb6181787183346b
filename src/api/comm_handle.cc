#include "src/api/comm_handle.h"

#include <chrono>

#include "src/api/api_guard.h"
#include "src/api/comm_internal.h"
#include "src/api/group/gpu_groups.h"
#include "src/api/group/group.h"

// All waits on the communicator have ended before, so other threads drop their references soon.
bpsComm::~bpsComm() {
  if (worker.joinable()) worker.join();
  for (int count = 1; !references.compare_exchange_strong(count, 0) && count > 0; count = 1)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  magic = 0;
}

namespace bps {

Result<bpsComm*> checkedHandle(bpsComm_t comm) {
  if (comm == nullptr) return badArgument("comm is NULL");
  if (comm->magic != bpsComm::kMagic) return badArgument("comm is not a communicator, or was destroyed");
  if (isInheritedByFork(*comm))
    return Status(Code::kInvalidUsage, "comm belongs to the process that forked this one off");
  return comm;
}

Result<HandleReference> HandleReference::acquire(bpsComm_t comm) {
  bpsComm* handle = BPS_TRY(checkedHandle(comm));
  int count = handle->references.load();
  while (count > 0)
    if (handle->references.compare_exchange_weak(count, count + 1)) return HandleReference(handle);
  return badArgument("comm is being freed");
}

nccl::LocalGpuGroup* gpuGroupOf(const bpsComm& handle) {
  return handle.state.load(std::memory_order_acquire) == bpsComm::State::kReady ? handle.gpuGroup.get() : nullptr;
}

Result<HandleReference> readyCommunicator(bpsComm_t comm) {
  HandleReference reference = BPS_TRY(HandleReference::acquire(comm));
  switch (reference.handle().state.load(std::memory_order_acquire)) {
    case bpsComm::State::kReady:
      return reference;
    case bpsComm::State::kFailed:
      return reference.handle().error.get();
    case bpsComm::State::kStarting:
      break;
  }
  return badArgument("comm is not ready: bpsCommGetAsyncError still says bpsInProgress");
}

Status runStart(bpsComm& handle) {
  Status started = guarded([&]() -> Status {
    BPS_TRY(handle.communicator->start());
    return setUpGpuGroup(handle);
  });
  if (!started.ok()) handle.error.set(started);
  handle.state.store(started.ok() ? bpsComm::State::kReady : bpsComm::State::kFailed, std::memory_order_release);
  return started;
}

Result<bool> blockingOf(const bpsConfig_t* config, bool inherited) {
  if (config == nullptr) return inherited;
  if (config->magic != BPS_CONFIG_MAGIC || config->size < offsetof(bpsConfig_t, cgaClusterSize))
    return badArgument("config was not started from BPS_CONFIG_INITIALIZER");
  if (config->blocking == BPS_CONFIG_UNDEF_INT) return inherited;
  if (config->blocking != 0 && config->blocking != 1)
    return badArgument("config.blocking is {}, expected 0 or 1", config->blocking);
  return config->blocking == 1;
}

Result<std::unique_ptr<bpsComm>> createHandle(const Env& env, const Communicator::Membership& membership,
                                              bool blocking) {
  auto handle = std::make_unique<bpsComm>();
  handle->communicator = BPS_TRY(Communicator::create(env, membership));
  handle->rank = membership.rank;
  handle->nRanks = membership.nRanks;
  handle->blocking = blocking;
  return handle;
}

namespace {

Status startOnThread(bpsComm& handle) {
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
  const HandleReference use = BPS_TRY(HandleReference::acquire(*out));
  const bool isDeferred = (*out)->blocking && Group::forThisThread().open();
  Status started = isDeferred         ? Group::forThisThread().deferStart(out)
                   : (*out)->blocking ? runStart(**out)
                                      : startOnThread(**out);
  if (started.ok() || started.code() == Code::kInProgress) return started;
  *out = nullptr;
  releaseByOwner(use.handle());
  return started;
}

void abortCalls(const bpsComm& handle) {
  handle.communicator->abort();
  if (const ParamGroup* parameters = handle.abortable.load()) parameters->abort();
  if (nccl::LocalGpuGroup* gpuGroup = gpuGroupOf(handle)) gpuGroup->end(true);
  handle.communicator->releaseFailedStreams();
}

bool isInheritedByFork(const bpsComm& handle) { return handle.forks != forkGeneration(); }

}  // namespace bps
