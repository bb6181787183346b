#include "src/comm/startup/split.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/comm/startup/connect.h"

namespace bps {
namespace {

// Rank 0 of the new communicator opens a rendezvous. The authenticated control plane of the
// existing communicator carries the unique id to the other ranks.
Result<UniqueId> exchangeId(const Env& env, ControlPlane& control, const std::vector<uint32_t>& group, int color) {
  Blob offer;
  Status opened;
  if (color >= 0 && group.front() == control.rank()) {
    Result<UniqueId> id = UniqueId::createHere(env);
    if (!id.ok()) {
      opened = std::move(id).status();
    } else {
      const auto bytes = std::move(id).value().bytes();
      offer.assign(bytes.begin(), bytes.end());
    }
  }
  const std::vector<Blob> offers = BPS_TRY(control.gatherForSplit(offer, Deadline::in(timeoutOf(env))));
  BPS_TRY(std::move(opened));
  if (color < 0) return UniqueId();
  const Blob& chosen = offers[group.front()];
  if (chosen.size() != kUniqueIdBytes)
    return failure(Code::kRemote, "{} could not open the rendezvous of the new communicator",
                   control.roster().rankName(group.front()));
  return UniqueId::parse(std::span<const uint8_t, kUniqueIdBytes>(chosen));
}

}  // namespace

Membership membershipIn(const std::vector<uint32_t>& group, const ControlPlane& control) {
  const Roster& roster = control.roster();
  Membership membership;
  membership.nRanks = static_cast<uint32_t>(group.size());
  membership.rank = static_cast<uint32_t>(std::find(group.begin(), group.end(), control.rank()) - group.begin());
  const uint32_t machine = roster.ranks[control.rank()].machine;
  membership.onOneMachine =
      std::all_of(group.begin(), group.end(), [&](uint32_t member) { return roster.ranks[member].machine == machine; });
  return membership;
}

Result<std::optional<Membership>> splitMembership(const Env& env, ControlPlane& control, const SplitRequest& request) {
  const std::vector<Blob> requests = BPS_TRY(control.gatherForSplit(request.bytes(), Deadline::in(timeoutOf(env))));
  const std::vector<uint32_t> group = BPS_TRY(splitGroup(requests, request.color, control.roster()));
  const UniqueId id = BPS_TRY(exchangeId(env, control, group, request.color));
  if (request.color < 0) return std::optional<Membership>();
  Membership membership = membershipIn(group, control);
  membership.id = id;
  return std::optional<Membership>(std::move(membership));
}

}  // namespace bps
