#include "src/interpose/batch.h"

#include <algorithm>
#include <thread>

#include "src/base/guard.h"
#include "src/base/mutex.h"
#include "src/nccl/patience.h"
#include "src/nccl/real.h"

namespace bps::interpose {

ncclResult_t worse(ncclResult_t first, ncclResult_t next) {
  return first == ncclSuccess || (first == ncclInProgress && next != ncclSuccess) ? next : first;
}

namespace {

void note(ncclResult_t& first, ncclResult_t next) { first = worse(first, next); }

// The calling thread's own default stream, which another thread cannot name (cudaStreamPerThread).
bool belongsToThread(cudaStream_t stream) { return reinterpret_cast<uintptr_t>(stream) == 2; }

}  // namespace

bool Batch::uses(ncclRedOp_t op, ncclComm_t comm) const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [&](const Held& one) { return one.call.op == op && one.call.comm == comm; });
}

bool Batch::settled() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const Held& one) { return one.shadow->settled(); });
}

ncclResult_t Batch::issue(bool inGroup) const {
  ncclResult_t first = ncclSuccess;
  bool passing = false;  // in a group, if there is more than one
  for (const auto& [shadow, call] : calls_) {
    if (shadow->serves(call)) {
      note(first, inGroup ? shadow->issueInGroup(call) : shadow->issue(call));
      continue;
    }
    if (shadow->ending()) {  // another thread has aborted it meanwhile, and the handle may be gone
      note(first, ncclInvalidUsage);
      continue;
    }
    if (!passing && calls_.size() > 1) note(first, BPS_REAL(ncclGroupStart));
    passing = calls_.size() > 1;
    shadow->countPassed(call);
    note(first, BPS_REAL(ncclAllReduce, call.send, call.recv, call.count, call.type, call.op, call.comm, call.stream));
  }
  if (passing) note(first, BPS_REAL(ncclGroupEnd));
  return first;
}

ncclResult_t Batch::finish() const {
  ncclResult_t first = ncclSuccess;
  for (const Held& one : calls_) note(first, one.shadow->finishOnHost());
  for (const auto& [op, comm] : released_) {
    const auto isGone = [comm = comm](const Held& one) { return one.call.comm == comm && one.shadow->ending(); };
    if (std::none_of(calls_.begin(), calls_.end(), isGone)) note(first, BPS_REAL(ncclRedOpDestroy, op, comm));
  }
  return first;
}

std::vector<std::shared_ptr<Shadow>> Batch::shadows() const {
  std::vector<std::shared_ptr<Shadow>> all;
  for (const Held& one : calls_)
    if (std::find(all.begin(), all.end(), one.shadow) == all.end()) all.push_back(one.shadow);
  return all;
}

ncclResult_t Batch::settle() const {
  std::vector<std::shared_ptr<Shadow>> open = shadows();
  std::erase_if(open, [](const std::shared_ptr<Shadow>& one) { return one->settled(); });
  // Each by a thread of its own: another process may settle them one after the other, in any order.
  std::vector<ncclResult_t> outcomes(open.size(), ncclSuccess);
  std::vector<std::thread> others;
  for (size_t i = 1; i < open.size(); ++i) others.emplace_back([&, i] { outcomes[i] = open[i]->settle(); });
  if (!open.empty()) outcomes[0] = open[0]->settle();
  for (std::thread& other : others) other.join();
  ncclResult_t first = ncclSuccess;
  for (const ncclResult_t outcome : outcomes) note(first, outcome);
  return first;
}

ncclResult_t Batch::complete(ncclResult_t settled) const {
  const ncclResult_t first = settled == ncclSuccess ? issue(false) : settled;
  return worse(first, finish());
}

bool Batch::mayBeLeft() const {
  return std::all_of(calls_.begin(), calls_.end(),
                     [](const Held& one) { return one.shadow->nonBlocking() && !belongsToThread(one.call.stream); });
}

// What the caller and the thread that settles for him share.
struct Batch::Work {
  Mutex mutex;
  bool settled BPS_GUARDED_BY(mutex) = false;
  bool left BPS_GUARDED_BY(mutex) = false;  // by the caller: the rest is the thread's, too
  ncclResult_t outcome = ncclSuccess;       // of settling; written before `settled`
};

ncclResult_t Batch::carryOut() const {
  const auto work = std::make_shared<Work>();
  std::thread settler([batch = shared_from_this(), work] {
    ncclResult_t outcome = ncclSuccess;
    const Status kept = guarded([&] { outcome = batch->settle(); });
    if (!kept.ok()) outcome = static_cast<ncclResult_t>(kept.code());
    {
      const MutexLock lock(work->mutex);
      work->outcome = outcome;
      work->settled = true;
      if (!work->left) return;
    }
    outcome = batch->complete(outcome);
    for (const auto& shadow : batch->shadows()) shadow->endLate(outcome);
  });
  for (nccl::Patience patience;; patience.pause()) {
    const MutexLock lock(work->mutex);
    if (work->settled) break;
    if (!mayBeLeft()) continue;
    work->left = true;
    for (const auto& shadow : shadows()) shadow->beginLate(std::exchange(settler, {}));
    return ncclInProgress;
  }
  settler.join();
  return complete(work->outcome);
}

}  // namespace bps::interpose
