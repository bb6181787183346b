#include "src/interpose/shadow_table.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/nccl/real_nccl.h"

namespace bps::interpose {
namespace {

struct ShadowTable {
  struct Worker {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };
  Mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<Shadow>> shadows BPS_GUARDED_BY(mutex);
  Mutex workersMutex;
  std::vector<Worker> workers BPS_GUARDED_BY(workersMutex);
};

void finishAtExit();
constexpr std::chrono::seconds kExitTimeout{3};

ShadowTable& table() {
  // Never freed: calls may come while the process's static objects are destroyed.
  static ShadowTable* const made = [] {
    [[maybe_unused]] const int registered = std::atexit(finishAtExit);
    return new ShadowTable;
  }();
  return *made;
}

std::vector<std::shared_ptr<Shadow>> unfinishedShadows() {
  std::vector<std::shared_ptr<Shadow>> left;
  const MutexLock lock(table().mutex);
  for (const auto& [comm, shadow] : table().shadows)
    if (!shadow->isInheritedByFork() && (shadow->negotiated() || shadow->deferred().inProgress()) && !shadow->ending())
      left.push_back(shadow);
  return left;
}

void finishAll(std::vector<std::shared_ptr<Shadow>> all) {
  const auto negotiated =
      std::stable_partition(all.begin(), all.end(), [](const auto& shadow) { return !shadow->negotiated(); });
  // A first call that other ranks have not joined may never end, and holds up the other calls of its group.
  std::for_each(all.begin(), negotiated, [](const auto& shadow) { shadow->end(Shadow::EndMode::kAbort); });
  std::for_each(negotiated, all.end(), [](const auto& shadow) {
    logInfo(Subsystem::kColl, "at exit: {}", shadow->summary());
    (void)shadow->finishCalls();
  });
}

// Many programs end without destroying their communicators, while other ranks may still be in the last call. So this
// completes the calls of this rank. A process that cannot, because its device is gone for example, ends after
// kExitTimeout. The thread is never joined: it may wait forever, and the process ends anyway.
void finishAtExit() {
  const std::vector<std::shared_ptr<Shadow>> left = unfinishedShadows();
  if (left.empty()) return;
  struct Progress {
    Mutex mutex;
    CondVar changed;
    bool done BPS_GUARDED_BY(mutex) = false;
  };
  auto* progress = new Progress;
  const Status started = guarded([&] {
    [[maybe_unused]] auto* const finisher = new std::thread([left, progress] {
      finishAll(left);
      {
        const MutexLock lock(progress->mutex);
        progress->done = true;
      }
      progress->changed.notifyAll();
    });
  });
  if (!started.ok()) return;
  const auto until = std::chrono::steady_clock::now() + kExitTimeout;
  const MutexLock lock(progress->mutex);
  while (!progress->done && std::chrono::steady_clock::now() < until)
    progress->changed.waitUntil(progress->mutex, until);
}

}  // namespace

std::shared_ptr<Shadow> findShadow(ncclComm_t comm) {
  const MutexLock lock(table().mutex);
  const auto found = table().shadows.find(comm);
  return found == table().shadows.end() || found->second->isInheritedByFork() ? nullptr : found->second;
}

std::shared_ptr<Shadow> findOrCreateShadow(ncclComm_t comm) {
  std::shared_ptr<Shadow> known = findShadow(comm);
  if (known == nullptr) {
    int rank = 0, nRanks = 0;
    if (comm == nullptr || BPS_REAL(ncclCommCount, comm, &nRanks) != ncclSuccess ||
        BPS_REAL(ncclCommUserRank, comm, &rank) != ncclSuccess)
      return nullptr;
    const MutexLock lock(table().mutex);
    known = table().shadows.emplace(comm, std::make_shared<Shadow>(comm, rank, nRanks)).first->second;
  }
  return known->nRanks() > 1 && !known->isInheritedByFork() ? known : nullptr;
}

Status startWorker(std::function<void()> body) {
  return guarded([&] {
    const MutexLock lock(table().workersMutex);
    std::vector<ShadowTable::Worker>& workers = table().workers;
    std::erase_if(workers, [](ShadowTable::Worker& worker) {
      const bool done = worker.done->load(std::memory_order_acquire);
      if (done) worker.thread.join();
      return done;
    });
    workers.reserve(workers.size() + 1);
    auto done = std::make_shared<std::atomic<bool>>(false);
    std::thread thread([body = std::move(body), done] {
      body();
      done->store(true, std::memory_order_release);
    });
    workers.push_back({std::move(thread), std::move(done)});
  });
}

bool removeShadow(const Shadow& shadow) {
  const MutexLock lock(table().mutex);
  const auto found = table().shadows.find(shadow.comm());
  if (found == table().shadows.end() || found->second.get() != &shadow) return false;
  table().shadows.erase(found);
  return true;
}

}  // namespace bps::interpose
