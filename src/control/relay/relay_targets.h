// RelayTargets: the addresses (of rendezvous servers and hubs) with which the communicators of this process connect,
// and the way on which each was reached. The relay forwards connections to targets that were reached, on the same way.
// So it is no open proxy, and connections cannot run in circles: a way leads through processes that reached the target
// earlier.
//
// Any thread may call any function.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/control/relay/relay_messages.h"

namespace bps {

// How a process reaches a target: directly, or through the relay of a neighbour.
struct RelayWay {
  std::optional<Address> relay;
  std::vector<RelayHop> hops{};  // the relays on the way, the neighbour first
};

class RelayTargets {
 public:
  using Owner = uint64_t;  // a communicator of this process

  Owner add(RelayHop self, size_t nRanks);
  void remove(Owner owner);
  void expect(Owner owner, const Address& target);
  void reached(Owner owner, const Address& target, RelayWay way);

  struct Found {
    RelayReply::Outcome outcome = RelayReply::Outcome::kUnknown;  // kConnected, kNotYet or kUnknown
    RelayWay way;                                                 // if kConnected
    RelayHop self;                                                // if kConnected: this process
  };
  Found find(const Address& target) const;
  // How many connections the ranks of the communicators may have through this process.
  size_t maxConnections() const;

 private:
  struct Target {
    std::string address;
    std::optional<RelayWay> way;
  };
  struct Communicator {
    Owner owner = 0;
    RelayHop self;
    size_t nRanks = 0;
    std::vector<Target> targets{};
  };
  Target* targetOf(Owner owner, const Address& address) BPS_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Owner next_ BPS_GUARDED_BY(mutex_) = 1;
  std::vector<Communicator> communicators_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps
