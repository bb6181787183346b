// The C functions that end and query communicators. The functions in init.cc start them, and the functions in
// split.cc split and shrink them.
#include <cstring>

#include "bps/bps_ext.h"
#include "src/api/api_guard.h"
#include "src/api/comm_handle.h"
#include "src/api/comm_internal.h"
#include "src/api/group/gpu_groups.h"
#include "src/api/group/group.h"

namespace bps {
namespace {

// Finalizes the local GPU group before the communicator, because the group's calls contain calls of
// bps.
Status finalize(const bpsComm& handle) {
  if (handle.parametersStarted && !handle.communicator->finalized()) BPS_TRY(handle.parameters->finish());
  Status groupStatus = handle.communicator->finalized() ? Status() : finalizeGpuGroup(handle);
  Status whole = handle.communicator->finalize();
  return groupStatus.ok() ? std::move(whole) : std::move(groupStatus);
}

// Finalizes on a separate thread. Freeing the handle joins that thread.
Status startFinalize(bpsComm& handle) {
  auto expectedState = bpsComm::FinalizeState::kNotStarted;
  if (!handle.finalizeState.compare_exchange_strong(expectedState, bpsComm::FinalizeState::kInProgress))
    return {Code::kInvalidUsage, "the communicator has been finalized already"};
  const auto done = [&handle](Status outcome) {
    if (!outcome.ok()) handle.error.set(outcome);
    handle.finalizeState.store(bpsComm::FinalizeState::kDone, std::memory_order_release);
    return outcome;
  };
  if (handle.worker.joinable()) handle.worker.join();  // the thread that started the communicator
  Status begun = guarded(
      [&] { handle.worker = std::thread([&handle, done] { (void)done(guarded([&] { return finalize(handle); })); }); });
  return begun.ok() ? Status(Code::kInProgress, "finalizing") : done(std::move(begun));
}

// Returns null in a forked child, which must not notify other ranks, join threads or free memory of
// its parent.
Result<bpsComm*> handleToFree(bpsComm_t comm) {
  if (comm != nullptr && comm->magic == bpsComm::kMagic && isInheritedByFork(*comm))
    return static_cast<bpsComm*>(nullptr);
  return checkedHandle(comm);
}

Status destroy(bpsComm_t comm) {
  bpsComm* handle = BPS_TRY(handleToFree(comm));
  if (handle == nullptr) return {};
  const std::unique_ptr<bpsComm> owner(handle);
  if (const size_t dropped = Group::forThisThread().dropDeferred(*handle); dropped > 0) {
    handle->communicator->abort();
    if (nccl::LocalGpuGroup* gpuGroup = gpuGroupOf(*handle)) gpuGroup->end(true);
    return bps::failure(Code::kInvalidUsage, "{} calls on it were still held by the open group", dropped);
  }
  if (handle->worker.joinable()) handle->worker.join();
  if (handle->state.load() != bpsComm::State::kReady) return {};
  // A communicator that has been finalized earlier must not be finalized again. In that case the
  // handle's error has the outcome of the earlier finalize, if that finalize was non-blocking.
  Status finalized = handle->communicator->finalized() ? handle->error.get() : finalize(*handle);
  // After a failure, NCCL's calls may wait forever for a rank that is missing. In that case the
  // local GPU group must be aborted.
  if (handle->gpuGroup != nullptr) handle->gpuGroup->end(!finalized.ok() || !handle->communicator->failure().ok());
  if (!finalized.ok()) handle->communicator->releaseFailedStreams();
  return finalized;
}

Status revoke(bpsComm_t comm, int flags) {
  const HandleReference reference = BPS_TRY(HandleReference::acquire(comm));
  if (flags != 0) return badArgument("revokeFlags is {}, expected 0", flags);
  reference.handle().revoked = true;
  reference->abort();
  if (const ParamGroup* parameters = reference.handle().abortable.load()) parameters->abort();
  return {};
}

// A thread that is inside a call on `comm` leaves the call now. If that thread waits for a CUDA
// queue that another communicator blocks, it leaves later and then frees the handle.
Status abortComm(bpsComm_t comm) {
  bpsComm* handle = BPS_TRY(handleToFree(comm));
  if (handle == nullptr) return {};
  Group::forThisThread().dropDeferred(*handle);
  abortCalls(*handle);
  const Deadline deadline = Deadline::in(nccl::kAbortGrace);
  while (handle->references.load() > 1 && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (handle->state.load(std::memory_order_acquire) == bpsComm::State::kReady)
    handle->communicator->waitForBuffersIdle();
  if (handle->parametersStarted) handle->parameters->communicator().waitForBuffersIdle();
  releaseByOwner(*handle);
  return {};
}

// Call errorOf() only after the communicator has started.
Status errorOf(const bpsComm& handle) {
  const auto finalizeState = handle.finalizeState.load(std::memory_order_acquire);
  if (Status failed = checkFailure(handle); !failed.ok()) return failed;
  if (const ParamGroup* parameters = handle.abortable.load(); parameters != nullptr && !parameters->failure().ok())
    return parameters->failure();
  return finalizeState == bpsComm::FinalizeState::kInProgress ? Status(Code::kInProgress, "finalizing")
                                                              : handle.error.get();
}

Status asyncError(bpsComm_t comm, bpsResult_t* result) {
  if (result == nullptr) return badArgument("asyncError is NULL");
  const HandleReference reference = BPS_TRY(HandleReference::acquire(comm));
  const bpsComm& handle = reference.handle();
  const auto state = handle.state.load(std::memory_order_acquire);
  if (state == bpsComm::State::kStarting) *result = bpsInProgress;
  else if (state == bpsComm::State::kFailed) *result = static_cast<bpsResult_t>(handle.error.get().code());
  else *result = static_cast<bpsResult_t>(errorOf(handle).code());
  return {};
}

std::string lastErrorOf(bpsComm_t comm) {
  const Result<HandleReference> reference = HandleReference::acquire(comm);
  if (!reference.ok()) return threadError();
  const auto state = comm->state.load(std::memory_order_acquire);
  if (state == bpsComm::State::kFailed) return comm->error.get().message();
  if (state == bpsComm::State::kReady && !errorOf(*comm).ok()) return errorOf(*comm).message();
  return threadError();
}

template <class T>
Status store(T* out, const char* name, T value) {
  if (out == nullptr) return badArgument("{} is NULL", name);
  *out = value;
  return {};
}

}  // namespace
}  // namespace bps

using namespace bps;

bpsResult_t bps::commLinkToParent(bpsComm_t part, bpsComm_t whole, const std::string& name) {
  return apiGuard(__func__, [&]() -> Status {
    const HandleReference reference = BPS_TRY(readyCommunicator(whole));
    BPS_TRY(readyCommunicator(part))->linkToParent(*reference, name);
    return {};
  });
}

bpsResult_t bps::commFail(bpsComm_t comm, bpsResult_t result, const std::string& why) {
  return apiGuard(__func__, [&]() -> Status {
    BPS_TRY(readyCommunicator(comm))->fail({static_cast<Code>(result), why});
    return {};
  });
}

bpsResult_t bps::commFailIfPeerLeft(bpsComm_t comm, Deadline& until) {
  return apiGuard(__func__, [&]() -> Status {
    BPS_TRY(readyCommunicator(comm))->failIfPeerLeft(until);
    return {};
  });
}

bool bps::commHasCallsInFlight(bpsComm_t comm) {
  Result<HandleReference> reference = readyCommunicator(comm);
  return reference.ok() && std::move(reference).value()->hasCallsInFlight();
}

Result<bool> bps::commHasDevice(bpsComm_t comm) { return BPS_TRY(readyCommunicator(comm))->device().has_value(); }

Result<bool> bps::commHoldsDeviceMemory(bpsComm_t comm, const void* pointer) {
  const HandleReference reference = BPS_TRY(readyCommunicator(comm));
  AllReduceCall call;
  call.send = call.recv = const_cast<void*>(pointer);
  call.count = 1;
  call.type = DataType::kUint8;
  call.stream = HostStream::find(nullptr);
  return reference->isOnDevice(call);
}

bool bps::groupIsOpen() { return Group::forThisThread().open(); }

Result<std::unique_ptr<bps::CommReference>> bps::CommReference::acquire(bpsComm_t comm) {
  const HandleReference reference = BPS_TRY(HandleReference::acquire(comm));
  return std::make_unique<CommReference>(comm);
}

bps::CommReference::CommReference(bpsComm_t comm) : comm_(comm) { comm_->references.fetch_add(1); }

bps::CommReference::~CommReference() { dropReference(*comm_); }

bpsResult_t bps::commFinalize(bpsComm_t comm) {
  return apiGuard(__func__, [&]() -> Status {
    const HandleReference reference = BPS_TRY(readyCommunicator(comm));
    return finalize(*comm);
  });
}

bpsResult_t bpsCommFinalize(bpsComm_t comm) {
  return apiGuard(__func__, [&]() -> Status {
    const HandleReference reference = BPS_TRY(readyCommunicator(comm));
    return comm->blocking ? finalize(*comm) : startFinalize(*comm);
  });
}

bpsResult_t bpsCommDestroy(bpsComm_t comm) {
  return apiGuard(__func__, [&] { return destroy(comm); });
}

bpsResult_t bpsCommAbort(bpsComm_t comm) {
  return apiGuard(__func__, [&] { return abortComm(comm); });
}

bpsResult_t bpsCommRevoke(bpsComm_t comm, int revokeFlags) {
  return apiGuard(__func__, [&] { return revoke(comm, revokeFlags); });
}

bpsResult_t bpsCommGetAsyncError(bpsComm_t comm, bpsResult_t* asyncError_) {
  return apiGuard(__func__, [&] { return asyncError(comm, asyncError_); });
}

bpsResult_t bpsCommCount(bpsComm_t comm, int* count) {
  return apiGuard(__func__, [&]() -> Status {
    return store(count, "count", static_cast<int>(BPS_TRY(readyCommunicator(comm))->nRanks()));
  });
}

bpsResult_t bpsCommUserRank(bpsComm_t comm, int* rank) {
  return apiGuard(__func__, [&]() -> Status {
    return store(rank, "rank", static_cast<int>(BPS_TRY(readyCommunicator(comm))->rank()));
  });
}

bpsResult_t bpsCommCuDevice(bpsComm_t comm, int* device) {
  return apiGuard(__func__, [&]() -> Status {
    return store(device, "device", BPS_TRY(readyCommunicator(comm))->device().value_or(0));
  });
}

bpsResult_t bpsCommDescribe(bpsComm_t comm, char* text, size_t size) {
  return apiGuard(__func__, [&]() -> Status {
    const std::string facts = BPS_TRY(readyCommunicator(comm))->describe();
    if (text == nullptr || size < facts.size() + 1)
      return badArgument("text has room for {} bytes, {} are needed", size, facts.size() + 1);
    std::memcpy(text, facts.c_str(), facts.size() + 1);
    return {};
  });
}

static_assert(BPS_MAX_PRIORITY == PriorityBoard::kMaxPriority);

bpsResult_t bpsCommSetPriority(bpsComm_t comm, int priority) {
  return apiGuard(__func__, [&]() -> Status {
    const HandleReference reference = BPS_TRY(readyCommunicator(comm));
    if (priority < 0 || priority > BPS_MAX_PRIORITY)
      return badArgument("priority is {}, expected 0 to {}", priority, BPS_MAX_PRIORITY);
    reference->setPriority(priority);
    return {};
  });
}

bpsResult_t bpsGetVersion(int* version) {
  return apiGuard(__func__, [&] { return store(version, "version", BPS_VERSION_CODE); });
}

const char* bpsGetLastError(bpsComm_t comm) {
  thread_local std::string text;
  const Status status = guarded([&] { text = lastErrorOf(comm); });
  return status.ok() ? text.c_str() : "";
}

const char* bpsGetErrorString(bpsResult_t result) {
  static constexpr const char* kTexts[] = {"no error",
                                           "unhandled CUDA error",
                                           "system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process failed or was cut off",
                                           "still in progress",
                                           "timed out"};
  return result >= 0 && result < bpsNumResults ? kTexts[result] : "unknown result code";
}
