#include "src/interpose/batch.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>

#include "src/base/guard.h"
#include "src/base/mutex.h"
#include "src/interpose/agreement/device.h"
#include "src/interpose/border.h"
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

ncclResult_t Batch::issue(By by) const {
  ncclResult_t first = ncclSuccess;
  std::unique_ptr<OnDevice> on;
  bool passing = false;  // in a group, if there is more than one
  for (const Held& one : calls_) {
    const auto& shadow = one.shadow;
    const Call& call = one.call;
    if (by == By::kThread && shadow->device() >= 0) {  // which has no device of the caller's
      on.reset();
      if (Result<OnDevice> entered = OnDevice::enter(shadow->device()); entered.ok())
        on = std::make_unique<OnDevice>(std::move(entered).value());
    }
    if (shadow->serves(call)) {
      const bool inGroup = by == By::kCallerInGroup || passing;
      // What goes wrong here, too, must not keep NCCL's group from its end.
      note(first, border([&] { return inGroup ? shadow->issueInGroup(call) : shadow->issue(call); }));
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
  release();
  return first;
}

void Batch::release() const {
  for (const auto& [op, comm] : released_) {
    const auto isGone = [comm = comm](const Held& one) { return one.call.comm == comm && one.shadow->ending(); };
    if (std::none_of(calls_.begin(), calls_.end(), isGone)) (void)BPS_REAL(ncclRedOpDestroy, op, comm);
  }
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
  std::vector<ncclResult_t> outcomes(open.size(), ncclSuccess);
  std::vector<std::thread> others(open.size());
  const auto settle = [&](size_t i) { outcomes[i] = border([&] { return open[i]->settle(); }); };
  // Each by a thread of its own, if it can be had: another process may settle them one after the other, in any order.
  for (size_t i = 1; i < open.size(); ++i) (void)guarded([&] { others[i] = std::thread(settle, i); });
  for (size_t i = 0; i < open.size(); ++i)
    if (!others[i].joinable()) settle(i);
  for (std::thread& other : others)
    if (other.joinable()) other.join();
  return std::accumulate(outcomes.begin(), outcomes.end(), ncclSuccess, worse);
}

// If one cannot be settled, none is carried out: a group fails as a whole, as with NCCL.
ncclResult_t Batch::complete(ncclResult_t settled, By by) const {
  const ncclResult_t first = settled == ncclSuccess ? issue(by) : settled;
  return worse(first, finish());
}

bool Batch::mayBeLeft() const {
  return std::all_of(calls_.begin(), calls_.end(),
                     [](const Held& one) { return one.shadow->nonBlocking() && !belongsToThread(one.call.stream); });
}

// What the caller and the thread that settles for him share.
struct Batch::Work {
  explicit Work(std::vector<std::shared_ptr<Shadow>> all) : shadows(std::move(all)) {}
  const std::vector<std::shared_ptr<Shadow>> shadows;
  Mutex mutex;
  bool settled BPS_GUARDED_BY(mutex) = false;
  bool left BPS_GUARDED_BY(mutex) = false;  // by the caller: the rest is the thread's, too
  ncclResult_t outcome = ncclSuccess;       // of settling; written before `settled`
  std::atomic<bool> done{false};            // the thread's last word
};

void Batch::work(Work& work) const {
  const ForUs calls;
  ncclResult_t outcome = border([&] { return settle(); });
  {
    const MutexLock lock(work.mutex);
    work.outcome = outcome;
    work.settled = true;
    if (!work.left) return;
  }
  for (const auto& shadow : work.shadows) shadow->late().issue();
  outcome = border([&] { return complete(outcome, By::kThread); });
  for (const auto& shadow : work.shadows) shadow->late().end(outcome, shadow->comm());
}

// Nobody waits for the thread: the next one that is started joins those that are done.
void Batch::start(const std::shared_ptr<Work>& work) const {
  struct Started {
    Mutex mutex;
    std::vector<std::pair<std::thread, std::shared_ptr<Work>>> threads BPS_GUARDED_BY(mutex);
  };
  static auto* const started = new Started;
  const MutexLock lock(started->mutex);
  std::erase_if(started->threads, [](auto& one) {
    const bool done = one.second->done.load(std::memory_order_acquire);
    if (done) one.first.join();
    return done;
  });
  started->threads.reserve(started->threads.size() + 1);
  std::thread thread([batch = shared_from_this(), work] {
    batch->work(*work);
    work->done.store(true, std::memory_order_release);
  });
  started->threads.emplace_back(std::move(thread), work);
}

ncclResult_t Batch::carryOut() const {
  const auto work = std::make_shared<Work>(shadows());
  if (!guarded([&] { start(work); }).ok()) return complete(settle(), By::kCaller);
  for (nccl::Patience patience;; patience.pause()) {
    const MutexLock lock(work->mutex);
    if (work->settled) break;
    if (!mayBeLeft()) continue;
    for (const auto& shadow : work->shadows) work->left = shadow->late().begin() || work->left;
    if (work->left) return ncclInProgress;  // else all are being ended, and it does not last
  }
  return complete(work->outcome, By::kCaller);
}

}  // namespace bps::interpose
