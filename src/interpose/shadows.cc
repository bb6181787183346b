#include "src/interpose/shadows.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/nccl/real.h"

namespace bps::interpose {
namespace {

struct Table {
  Mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<Shadow>> shadows BPS_GUARDED_BY(mutex);
};

void leaveAtExit();
constexpr std::chrono::seconds kDepartures{3};

Table& table() {
  // Never freed: calls may come while the process's static objects are destroyed.
  static Table* const made = [] {
    [[maybe_unused]] const int registered = std::atexit(leaveAtExit);
    return new Table;
  }();
  return *made;
}

std::vector<std::shared_ptr<Shadow>> leftOver() {
  std::vector<std::shared_ptr<Shadow>> left;
  const MutexLock lock(table().mutex);
  for (const auto& [comm, shadow] : table().shadows)
    if (!shadow->ofForkedChild() && (shadow->settled() || shadow->late().underWay()) && !shadow->ending())
      left.push_back(shadow);
  return left;
}

void leaveAll(std::vector<std::shared_ptr<Shadow>> all) {
  const auto settled =
      std::stable_partition(all.begin(), all.end(), [](const auto& shadow) { return !shadow->settled(); });
  // A first call that others have not joined yet may never end, and holds up the others of its group.
  std::for_each(all.begin(), settled, [](const auto& shadow) { shadow->end(Shadow::Ending::kAbort); });
  std::for_each(settled, all.end(), [](const auto& shadow) {
    logInfo(Subsystem::kColl, "at exit: {}", shadow->summary());
    (void)shadow->complete();
  });
}

// Many programs end without destroying their communicators. The other ranks may still be in the last call, so ours are
// completed and we say goodbye; a process that cannot (its device is gone, say) ends without it after a while. The
// thread is never joined: what it waits for may never come, and the process ends anyhow.
void leaveAtExit() {
  const std::vector<std::shared_ptr<Shadow>> left = leftOver();
  if (left.empty()) return;
  struct Progress {
    Mutex mutex;
    CondVar changed;
    bool done BPS_GUARDED_BY(mutex) = false;
  };
  auto* progress = new Progress;
  const Status started = guarded([&] {
    [[maybe_unused]] auto* const leaver = new std::thread([left, progress] {
      leaveAll(left);
      {
        const MutexLock lock(progress->mutex);
        progress->done = true;
      }
      progress->changed.notifyAll();
    });
  });
  if (!started.ok()) return;
  const auto until = std::chrono::steady_clock::now() + kDepartures;
  const MutexLock lock(progress->mutex);
  while (!progress->done && std::chrono::steady_clock::now() < until)
    progress->changed.waitUntil(progress->mutex, until);
}

}  // namespace

std::shared_ptr<Shadow> knownShadow(ncclComm_t comm) {
  const MutexLock lock(table().mutex);
  const auto found = table().shadows.find(comm);
  return found == table().shadows.end() || found->second->ofForkedChild() ? nullptr : found->second;
}

std::shared_ptr<Shadow> shadowOf(ncclComm_t comm) {
  std::shared_ptr<Shadow> known = knownShadow(comm);
  if (known == nullptr) {
    int rank = 0, nRanks = 0;
    if (comm == nullptr || BPS_REAL(ncclCommCount, comm, &nRanks) != ncclSuccess ||
        BPS_REAL(ncclCommUserRank, comm, &rank) != ncclSuccess)
      return nullptr;
    const MutexLock lock(table().mutex);
    known = table().shadows.emplace(comm, std::make_shared<Shadow>(comm, rank, nRanks)).first->second;
  }
  return known->nRanks() > 1 && !known->ofForkedChild() ? known : nullptr;
}

bool dropShadow(const Shadow& shadow) {
  const MutexLock lock(table().mutex);
  const auto found = table().shadows.find(shadow.comm());
  if (found == table().shadows.end() || found->second.get() != &shadow) return false;
  table().shadows.erase(found);
  return true;
}

}  // namespace bps::interpose
