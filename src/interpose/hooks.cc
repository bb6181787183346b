// The hooks: the functions of NCCL that the interposer replaces.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/interpose/api_guard.h"
#include "src/interpose/group.h"
#include "src/interpose/nccl/exported.h"
#include "src/interpose/negotiation/scratch_memory.h"
#include "src/interpose/preload_config.h"
#include "src/interpose/shadow_table.h"
#include "src/nccl/real_nccl.h"

namespace bps::interpose {
namespace {

// If the environment disables bps, every hook only forwards its call to NCCL. NCCL itself calls some hooks, for example
// for groups and asynchronous errors. A hook treats a call from NCCL like a call from the application, but does not
// report failures of bps to NCCL (see isCalledByNccl()).
bool isDisabled() { return preloadConfig().disabled; }

ncclResult_t passToNccl(const Call& call) {
  return BPS_REAL(ncclAllReduce, call.send, call.recv, call.count, call.type, call.op, call.comm, call.stream);
}

ncclResult_t allReduce(Call call) {
  if (call.count == 0 || isCapturing(call.stream)) return passToNccl(call);
  const std::shared_ptr<Shadow> shadow = findOrCreateShadow(call.comm);
  if (shadow == nullptr || shadow->ending()) return passToNccl(call);
  if (shadow->busy()) return ncclInvalidArgument;  // NCCL returns the same error
  if (call.op >= ncclNumOps) call.userOp = shadow->findOp(call.op);
  Group& group = Group::ofThisThread();
  if (group.open() && (!shadow->negotiated() || shadow->serves(call))) {
    group.enqueue(shadow, call);
    return ncclSuccess;
  }
  if (!shadow->negotiated()) {
    const auto first = std::make_shared<CallGroup>();
    first->add(shadow, call);
    return first->execute();
  }
  if (!shadow->serves(call)) {
    shadow->countPassedToNccl(call);
    return passToNccl(call);
  }
  const ncclResult_t issued = shadow->issue(call);
  return issued == ncclSuccess ? shadow->finishOnHost() : issued;
}

size_t bytesOf(ncclDataType_t type) {
  Call one{};
  one.count = 1;
  one.type = type;
  return one.bytes();
}

void rememberOp(ncclRedOp_t op, const void* scalar, UserOp user, ncclComm_t comm) {
  const std::shared_ptr<Shadow> shadow = findOrCreateShadow(comm);
  if (shadow == nullptr) return;
  if (user.residence == ncclScalarDevice) user.deviceScalar = const_cast<void*>(scalar);
  else std::memcpy(&user.scalar, scalar, bytesOf(user.type));
  shadow->addOp(op, user);
}

// Ends the use of the communicator by bps before NCCL ends the communicator, so that bps afterwards neither touches
// buffers nor waits for NCCL. Returns false if another thread has removed the shadow meanwhile. NCCL must then not end
// the communicator again.
bool endShadow(ncclComm_t comm, Shadow::EndMode how) {
  const std::shared_ptr<Shadow> shadow = findShadow(comm);
  if (shadow == nullptr) return true;
  if (how == Shadow::EndMode::kDestroy && !shadow->finishCalls()) how = Shadow::EndMode::kAbort;
  if (!removeShadow(*shadow)) return false;
  if (shadow->negotiated()) logInfo(Subsystem::kColl, "{}", shadow->summary());
  shadow->end(how);
  return true;
}

// Ends the use of the communicator by bps. NCCL alone carries out later calls.
void abortShadow(ncclComm_t comm) {
  if (const std::shared_ptr<Shadow> shadow = findShadow(comm)) shadow->end(Shadow::EndMode::kAbort);
}

bool isCalledByNccl(const void* caller) {
  Dl_info ours{}, theirs{};
  const nccl::RealNccl* real = nccl::realNccl();
  // If NCCL is linked into a library of the application, the caller may be NCCL or the application. Hooks then report
  // failures of bps to every caller, because the application must learn about these failures.
  if (real == nullptr || !nccl::isStandaloneLibrary(real->path)) return false;
  return ::dladdr(caller, &ours) != 0 && ::dladdr(reinterpret_cast<const void*>(real->ncclAllReduce), &theirs) != 0 &&
         ours.dli_fbase == theirs.dli_fbase;
}

ncclResult_t bpsErrorOf(ncclComm_t comm) {
  const std::shared_ptr<Shadow> shadow = findShadow(comm);
  return shadow == nullptr ? ncclSuccess : shadow->error();
}

}  // namespace
}  // namespace bps::interpose

using namespace bps::interpose;

// NOLINTNEXTLINE(readability-function-size): the signature is NCCL's
ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const Call call{send, recv, count, type, op, comm, stream, {}};
  return apiGuard([&] { return isDisabled() ? passToNccl(call) : allReduce(call); });
}

ncclResult_t ncclGroupStart() {
  return apiGuard([] { return isDisabled() ? BPS_REAL(ncclGroupStart) : Group::ofThisThread().start(); });
}

ncclResult_t ncclGroupEnd() {
  return apiGuard([] { return isDisabled() ? BPS_REAL(ncclGroupEnd) : Group::ofThisThread().end(); });
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return apiGuard(
      [&] { return isDisabled() ? BPS_REAL(ncclGroupSimulateEnd, info) : Group::ofThisThread().simulateEnd(info); });
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return apiGuard([&] {
    const auto shadow = isDisabled() ? nullptr : findShadow(comm);
    if (shadow != nullptr && shadow->busy()) return ncclInvalidArgument;
    const ncclResult_t made = BPS_REAL(ncclRedOpCreatePreMulSum, op, scalar, type, residence, comm);
    if (made == ncclSuccess && !isDisabled()) rememberOp(*op, scalar, {type, residence, nullptr, 0}, comm);
    return made;
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return apiGuard([&] {
    if (!isDisabled()) {
      const auto shadow = findShadow(comm);
      if (shadow != nullptr) shadow->removeOp(op);
      if (shadow != nullptr && shadow->deferred().destroyOpLater(op)) return ncclSuccess;
      if (Group::ofThisThread().deferOpDestroy(op, comm)) return ncclSuccess;
    }
    return BPS_REAL(ncclRedOpDestroy, op, comm);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return apiGuard([&] {
    const auto shadow = isDisabled() ? nullptr : findShadow(comm);
    if (shadow != nullptr && shadow->busy()) return ncclInvalidArgument;
    const ncclResult_t ours = shadow != nullptr ? shadow->finalize() : ncclSuccess;
    // A failed communicator can only be destroyed or aborted. NCCL no longer knows an aborted communicator.
    if (ours != ncclSuccess && ours != ncclInProgress) return ours;
    const InternalNcclCall call;
    return worse(ours, BPS_REAL(ncclCommFinalize, comm));
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return apiGuard([&] {
    const auto shadow = isDisabled() ? nullptr : findShadow(comm);
    if (shadow != nullptr && shadow->deferred().inProgress()) return ncclInvalidArgument;
    const bool ended = shadow == nullptr || endShadow(comm, Shadow::EndMode::kDestroy);
    return ended ? BPS_REAL(ncclCommDestroy, comm) : ncclInvalidUsage;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return apiGuard([&] {
    const bool ended = isDisabled() || endShadow(comm, Shadow::EndMode::kAbort);
    return ended ? BPS_REAL(ncclCommAbort, comm) : ncclInvalidUsage;
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return apiGuard([&] {
    if (!isDisabled()) abortShadow(comm);
    return BPS_REAL(ncclCommRevoke, comm, flags);
  });
}

// NOLINTNEXTLINE(readability-function-size): the signature is NCCL's
ncclResult_t ncclCommShrink(ncclComm_t comm, int* exclude, int count, ncclComm_t* made, ncclConfig_t* config,
                            int flags) {
  return apiGuard([&] {
    if (!isDisabled() && (flags & kShrinkAbort) != 0) abortShadow(comm);
    return BPS_REAL(ncclCommShrink, comm, exclude, count, made, config, flags);
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const void* caller = __builtin_return_address(0);
  return apiGuard([&] {
    // Asks bps before NCCL, so that NCCL's answer also covers calls that bps has just made to NCCL.
    ncclResult_t ours = isDisabled() || InternalNcclCall::active() ? ncclSuccess : bpsErrorOf(comm);
    if (ours != ncclSuccess && isCalledByNccl(caller)) ours = ncclSuccess;
    const ncclResult_t asked = BPS_REAL(ncclCommGetAsyncError, comm, result);
    if (asked == ncclSuccess) *result = worse(*result, ours);
    return asked;
  });
}

const char* ncclGetLastError(ncclComm_t comm) {
  thread_local std::string text;
  const bps::Status kept = bps::guarded([&] {
    text.clear();
    if (isDisabled() || comm == nullptr) return;
    if (const ncclResult_t ours = bpsErrorOf(comm); ours == ncclSuccess || ours == ncclInProgress) return;
    if (const auto shadow = findShadow(comm)) text = shadow->lastError();
  });
  return kept.ok() && !text.empty() ? text.c_str() : BPS_REAL(ncclGetLastError, comm);
}
