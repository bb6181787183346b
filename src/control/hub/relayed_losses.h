// RelayedLosses: the members whose connections to the hub have ended, in a job in which connections lead through the
// relays of other ranks (src/control/relay/relay.h).
//
// The process of a relay takes the connections that lead through it with it. The hub therefore waits a short time for
// further losses, and then blames a lost member whose relay is not lost. Of several such members it blames one that
// other members suspect, or else the first one.
//
// The RelayedLosses belong to the Hub, and only the control thread uses them.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/status.h"

namespace bps {

class RelayedLosses {
 public:
  // The connection of the rank leads through the relay of rank `via`.
  void setVia(size_t rank, uint32_t via);
  // True if the connection of some rank leads through a relay.
  bool relayed() const { return !via_.empty(); }

  // The first loss sets the time of the decision.
  void add(size_t member, Status why, Deadline decision);
  bool has(size_t member) const;
  bool empty() const { return lost_.empty(); }
  Deadline deadline() const { return lost_.empty() ? Deadline::never() : decision_; }
  // Returns the failure of the member to blame, once it is time.
  Status due(const std::function<bool(size_t member)>& isSuspected) const;

 private:
  struct Loss {
    size_t member;
    Status why;
  };
  bool viaLost(size_t member) const;

  std::vector<uint32_t> via_;  // by rank; ~0 for a direct connection, also beyond the end
  std::vector<Loss> lost_;
  Deadline decision_ = Deadline::never();
};

}  // namespace bps
