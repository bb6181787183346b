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
  std::thread finisher;  // used only by the exit handler
  CondVar finisherEnded;
  bool hasFinisherEnded BPS_GUARDED_BY(mutex) = false;
  Mutex workersMutex;
  std::vector<Worker> workers BPS_GUARDED_BY(workersMutex);
};

void finishAtExit();
constexpr std::chrono::seconds kExitTimeout{3};

ShadowTable& table() {
  // The table is never freed, because calls may come while the static objects of the process are destroyed.
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
  // Abort the communicators that are not negotiated. A negotiation in which other ranks do not take part never ends,
  // and it delays all calls of its group.
  std::for_each(all.begin(), negotiated, [](const auto& shadow) { shadow->end(Shadow::EndMode::kAbort); });
  std::for_each(negotiated, all.end(), [](const auto& shadow) {
    logInfo(Subsystem::kColl, "at exit: {}", shadow->summary());
    (void)shadow->finishCalls();
  });
}

// Many programs exit without destroying their communicators. The other ranks may still be in the last call, so this
// rank completes its calls and says goodbye at exit. If the completion takes longer than kExitTimeout, for example
// because the device has failed, the process exits without it. In this case the finisher thread is not joined, because
// its wait may never end.
void finishAtExit() {
  const std::vector<std::shared_ptr<Shadow>> left = unfinishedShadows();
  if (left.empty()) return;
  ShadowTable& all = table();
  const Status started = guarded([&] {
    all.finisher = std::thread([left, &all] {
      finishAll(left);
      const MutexLock lock(all.mutex);
      all.hasFinisherEnded = true;
      all.finisherEnded.notifyAll();
    });
  });
  if (!started.ok()) return;
  bool ended = false;
  {
    const auto until = std::chrono::steady_clock::now() + kExitTimeout;
    const MutexLock lock(all.mutex);
    while (!all.hasFinisherEnded && std::chrono::steady_clock::now() < until)
      all.finisherEnded.waitUntil(all.mutex, until);
    ended = all.hasFinisherEnded;
  }
  if (ended) all.finisher.join();
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
