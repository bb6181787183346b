#include "src/interpose/shadows.h"

#include <cstdlib>
#include <map>
#include <vector>

#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/interpose/nccl/real.h"

namespace bps::interpose {
namespace {

struct Table {
  Mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<Shadow>> shadows BPS_GUARDED_BY(mutex);
};

void reportAtExit();

Table& table() {
  // Never freed: calls may come while the process's static objects are destroyed.
  static Table* const made = [] {
    [[maybe_unused]] const int registered = std::atexit(reportAtExit);
    return new Table;
  }();
  return *made;
}

// Many programs end without destroying their communicators.
void reportAtExit() {
  std::vector<std::shared_ptr<Shadow>> left;
  {
    const MutexLock lock(table().mutex);
    for (const auto& [comm, shadow] : table().shadows) left.push_back(shadow);
  }
  for (const auto& shadow : left)
    if (shadow->settled()) logInfo(Subsystem::kColl, "at exit: {}", shadow->summary());
}

}  // namespace

std::shared_ptr<Shadow> knownShadow(ncclComm_t comm) {
  const MutexLock lock(table().mutex);
  const auto found = table().shadows.find(comm);
  return found == table().shadows.end() ? nullptr : found->second;
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
  return known->nRanks() > 1 ? known : nullptr;
}

std::shared_ptr<Shadow> takeShadow(ncclComm_t comm) {
  const MutexLock lock(table().mutex);
  auto node = table().shadows.extract(comm);
  return node.empty() ? nullptr : node.mapped();
}

}  // namespace bps::interpose
