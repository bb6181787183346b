#include "src/interpose/call_group.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <thread>

#include "src/base/guard.h"
#include "src/base/mutex.h"
#include "src/interpose/api_guard.h"
#include "src/interpose/negotiation/scratch_memory.h"
#include "src/interpose/shadow_table.h"
#include "src/nccl/backoff.h"
#include "src/nccl/real_nccl.h"

namespace bps::interpose {

ncclResult_t worse(ncclResult_t first, ncclResult_t next) {
  return first == ncclSuccess || (first == ncclInProgress && next != ncclSuccess) ? next : first;
}

namespace {

void keepWorse(ncclResult_t& first, ncclResult_t next) { first = worse(first, next); }

// cudaStreamPerThread denotes a different stream on every thread.
bool isPerThreadDefaultStream(cudaStream_t stream) { return reinterpret_cast<uintptr_t>(stream) == 2; }

}  // namespace

bool CallGroup::uses(ncclRedOp_t op, ncclComm_t comm) const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [&](const QueuedCall& one) { return one.call.op == op && one.call.comm == comm; });
}

bool CallGroup::negotiated() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const QueuedCall& one) { return one.shadow->negotiated(); });
}

ncclResult_t CallGroup::issue(Issuer issuer) const {
  // Without a group of bps, each call waits for its stream, and its stream for the call. Calls of NCCL on the same
  // stream need that.
  const bool together = calls_.size() > 1 && std::all_of(calls_.begin(), calls_.end(), [](const QueuedCall& one) {
                          return one.shadow->serves(one.call) && !one.shadow->combinesByNccl();
                        });
  if (!together) return issueInOrder(issuer);
  const bpsResult_t started = bpsGroupStart();
  if (started != bpsSuccess) return nccl::toNcclResult(started);
  const ncclResult_t issued = apiGuard([&] { return issueInOrder(issuer); });
  const bpsResult_t ended = bpsGroupEnd();
  if (ended != bpsSuccess) logWarn(Subsystem::kColl, "{}", bpsGetLastError(nullptr));
  return worse(issued, nccl::toNcclResult(ended));
}

ncclResult_t CallGroup::issueInOrder(Issuer issuer) const {
  ncclResult_t first = ncclSuccess;
  std::unique_ptr<ScopedDevice> on;
  bool inNcclGroup = false;
  for (const QueuedCall& one : calls_) {
    const auto& shadow = one.shadow;
    const Call& call = one.call;
    if (issuer == Issuer::kThread && shadow->device() >= 0) {  // a worker thread has no current CUDA device yet
      on.reset();
      if (Result<ScopedDevice> entered = ScopedDevice::enter(shadow->device()); entered.ok())
        on = std::make_unique<ScopedDevice>(std::move(entered).value());
    }
    if (shadow->serves(call)) {
      const bool inGroup = issuer == Issuer::kCallerInGroup || inNcclGroup;
      // An exception here must not prevent the end of NCCL's group.
      keepWorse(first, apiGuard([&] { return inGroup ? shadow->issueInGroup(call) : shadow->issue(call); }));
      continue;
    }
    if (shadow->ending()) {  // another thread has ended the communicator, so its handle may be invalid
      keepWorse(first, ncclInvalidUsage);
      continue;
    }
    if (!inNcclGroup && calls_.size() > 1) keepWorse(first, BPS_REAL(ncclGroupStart));
    inNcclGroup = calls_.size() > 1;
    shadow->countPassedToNccl(call);
    keepWorse(first,
              BPS_REAL(ncclAllReduce, call.send, call.recv, call.count, call.type, call.op, call.comm, call.stream));
  }
  if (inNcclGroup) keepWorse(first, BPS_REAL(ncclGroupEnd));
  return first;
}

ncclResult_t CallGroup::finish() const {
  ncclResult_t first = ncclSuccess;
  for (const QueuedCall& one : calls_) keepWorse(first, one.shadow->finishOnHost());
  destroyDeferredOps();
  return first;
}

void CallGroup::destroyDeferredOps() const {
  for (const auto& [op, comm] : released_) {
    const auto isGone = [comm = comm](const QueuedCall& one) { return one.call.comm == comm && one.shadow->ending(); };
    if (std::none_of(calls_.begin(), calls_.end(), isGone)) (void)BPS_REAL(ncclRedOpDestroy, op, comm);
  }
}

std::vector<std::shared_ptr<Shadow>> CallGroup::shadows() const {
  std::vector<std::shared_ptr<Shadow>> all;
  for (const QueuedCall& one : calls_)
    if (std::find(all.begin(), all.end(), one.shadow) == all.end()) all.push_back(one.shadow);
  return all;
}

ncclResult_t CallGroup::negotiate() const {
  std::vector<std::shared_ptr<Shadow>> open = shadows();
  std::erase_if(open, [](const std::shared_ptr<Shadow>& one) { return one->negotiated(); });
  std::vector<ncclResult_t> outcomes(open.size(), ncclSuccess);
  std::vector<std::thread> others(open.size());
  const auto negotiate = [&](size_t i) { outcomes[i] = apiGuard([&] { return open[i]->negotiate(); }); };
  // Negotiates every communicator on a separate thread, because another process may negotiate the communicators one by
  // one in any order. If a thread cannot start, its communicator is negotiated on this thread.
  for (size_t i = 1; i < open.size(); ++i) (void)guarded([&] { others[i] = std::thread(negotiate, i); });
  for (size_t i = 0; i < open.size(); ++i)
    if (!others[i].joinable()) negotiate(i);
  for (std::thread& other : others)
    if (other.joinable()) other.join();
  return std::accumulate(outcomes.begin(), outcomes.end(), ncclSuccess, worse);
}

// If one negotiation fails, no call of the group is carried out, because a group in NCCL also fails as a whole.
ncclResult_t CallGroup::issueAndFinish(ncclResult_t negotiated, Issuer issuer) const {
  const ncclResult_t first = negotiated == ncclSuccess ? issue(issuer) : negotiated;
  return worse(first, finish());
}

bool CallGroup::callerMayReturn() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const QueuedCall& one) {
    return one.shadow->nonBlocking() && !isPerThreadDefaultStream(one.call.stream);
  });
}

// The state that the caller and the worker thread share.
struct CallGroup::DeferredWork {
  explicit DeferredWork(std::vector<std::shared_ptr<Shadow>> all) : shadows(std::move(all)) {}
  const std::vector<std::shared_ptr<Shadow>> shadows;
  Mutex mutex;
  bool negotiated BPS_GUARDED_BY(mutex) = false;
  bool callerReturned BPS_GUARDED_BY(mutex) = false;  // if true, the worker thread also issues and finishes the calls
  ncclResult_t outcome = ncclSuccess;                 // result of the negotiation; written before `negotiated`
};

void CallGroup::work(DeferredWork& work) const {
  const InternalNcclCall calls;
  ncclResult_t outcome = apiGuard([&] { return negotiate(); });
  {
    const MutexLock lock(work.mutex);
    work.outcome = outcome;
    work.negotiated = true;
    if (!work.callerReturned) return;
  }
  for (const auto& shadow : work.shadows) shadow->deferred().issue();
  outcome = apiGuard([&] { return issueAndFinish(outcome, Issuer::kThread); });
  for (const auto& shadow : work.shadows) shadow->deferred().end(outcome, shadow->comm());
}

ncclResult_t CallGroup::execute() const {
  const auto work = std::make_shared<DeferredWork>(shadows());
  const Status started = startWorker([callGroup = shared_from_this(), work] { callGroup->work(*work); });
  if (!started.ok()) return issueAndFinish(negotiate(), Issuer::kCaller);
  for (nccl::Backoff backoff;; backoff.pause()) {
    const MutexLock lock(work->mutex);
    if (work->negotiated) break;
    if (!callerMayReturn()) continue;
    for (const auto& shadow : work->shadows) work->callerReturned = shadow->deferred().begin() || work->callerReturned;
    if (work->callerReturned) return ncclInProgress;  // otherwise all communicators are ending, so the loop ends soon
  }
  return issueAndFinish(work->outcome, Issuer::kCaller);
}

}  // namespace bps::interpose
