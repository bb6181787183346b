#include "src/control/relay/relay_targets.h"

#include <algorithm>
#include <utility>

namespace bps {
namespace {

constexpr size_t kLeastConnections = 64;
// A rank has a connection to the hub, and for a short time one to the rendezvous server.
constexpr size_t kConnectionsPerRank = 2;

}  // namespace

RelayTargets::Owner RelayTargets::add(RelayHop self, size_t nRanks) {
  MutexLock lock(mutex_);
  communicators_.push_back({next_, std::move(self), nRanks});
  return next_++;
}

void RelayTargets::remove(Owner owner) {
  MutexLock lock(mutex_);
  std::erase_if(communicators_, [&](const Communicator& each) { return each.owner == owner; });
}

RelayTargets::Target* RelayTargets::targetOf(Owner owner, const Address& address) {
  const auto communicator = std::ranges::find(communicators_, owner, &Communicator::owner);
  if (communicator == communicators_.end()) return nullptr;
  const auto target = std::ranges::find(communicator->targets, address.text(), &Target::address);
  if (target != communicator->targets.end()) return &*target;
  communicator->targets.push_back({address.text(), {}});
  return &communicator->targets.back();
}

void RelayTargets::expect(Owner owner, const Address& target) {
  MutexLock lock(mutex_);
  [[maybe_unused]] const Target* const known = targetOf(owner, target);
}

void RelayTargets::reached(Owner owner, const Address& target, RelayWay way) {
  MutexLock lock(mutex_);
  Target* const known = targetOf(owner, target);
  if (known != nullptr && !known->way) known->way = std::move(way);
}

RelayTargets::Found RelayTargets::find(const Address& target) const {
  const std::string text = target.text();
  MutexLock lock(mutex_);
  Found found;
  for (const Communicator& communicator : communicators_) {
    const auto known = std::ranges::find(communicator.targets, text, &Target::address);
    if (known == communicator.targets.end()) continue;
    found.outcome = RelayReply::Outcome::kNotYet;
    if (known->way) return {RelayReply::Outcome::kConnected, *known->way, communicator.self};
  }
  return found;
}

size_t RelayTargets::maxConnections() const {
  MutexLock lock(mutex_);
  size_t most = kLeastConnections;
  for (const Communicator& communicator : communicators_) most += kConnectionsPerRank * communicator.nRanks;
  return most;
}

}  // namespace bps
