#include "src/comm/metrics/server_tally.h"

namespace bps {

using Kind = ServerEvent::Kind;

ServerTally::ServerTally(const Roster& roster) : present_(roster.servers.size()) {
  for (uint32_t server = 0; server < present_.size(); ++server) set(server, roster.servers[server].present);
}

void ServerTally::note(const ServerEvent& event) {
  if (event.server >= present_.size()) return;
  switch (event.kind) {
    case Kind::kJoining:
    case Kind::kLeaving:
    case Kind::kNewRate:
      pending_ = {event.kind, event.server};
      break;
    case Kind::kAt:
      if (pending_) apply(*pending_);
      pending_.reset();
      break;
    case Kind::kAborted:
      pending_.reset();
      break;
    case Kind::kLost:
      if (present_[event.server]) count(Change::kLost);
      set(event.server, false);
      break;
    case Kind::kRankLost:
    case Kind::kHandles:
    case Kind::kConnected:
    case Kind::kEnd:
      break;
  }
}

void ServerTally::apply(const Pending& change) {
  if (change.what == Kind::kNewRate) return count(Change::kRate);
  const bool joins = change.what == Kind::kJoining;
  if (present_[change.server] == joins) return;  // the server was lost before it could leave
  count(joins ? Change::kJoined : Change::kLeft);
  set(change.server, joins);
}

void ServerTally::set(uint32_t server, bool present) {
  if (present_[server] == present) return;
  present_[server] = present;
  if (present) inUse_.fetch_add(1, std::memory_order_relaxed);
  else inUse_.fetch_sub(1, std::memory_order_relaxed);
}

ServerTally::Counts ServerTally::counts() const {
  Counts all{};
  for (size_t change = 0; change < all.size(); ++change) all[change] = counters_[change].value();
  return all;
}

}  // namespace bps
