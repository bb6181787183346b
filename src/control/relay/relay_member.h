// RelayMember: what a communicator on a fabric has to do with relays (relay.h): the relays of the neighbours, through
// which it dials, and the relay of this machine, which it tells what it has reached.
//
// The first process of a machine that listens at the relay port has the relay. It keeps the relay until its last
// communicator has gone. Then the relay serves the connections of neighbours until they end, for BPS_TIMEOUT at most; a
// process that exits waits for this. A neighbour closes its connection when it has left its communicator, and the
// relays between it and rank 0 form a tree, so the processes do not wait for each other in a circle.
//
// The other processes of the machine dial through the relays of the neighbours too. They ask the relay of the machine
// whether it serves their communicator: another job may have the port, or the process that had it has ended. In a child
// of fork() there is no relay.
//
// Only one thread at a time uses a RelayMember, but any thread may call problem().
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/mutex.h"
#include "src/control/relay/relay.h"
#include "src/fabric/fabric_place.h"

namespace bps {

struct NeighbourRelay {
  Address address;
  std::string where;  // which machine, on which level; for errors
};
struct RelayMemberArgs {
  std::vector<Address> own;                // the addresses of this machine in the fabric, with the relay's port
  std::vector<NeighbourRelay> neighbours;  // in order of level and digit
  RelayHop self{};
  size_t nRanks = 0;
  std::chrono::milliseconds timeout{};  // BPS_TIMEOUT
  bool direct = true;                   // also dials without a relay; only tests set it to false
};
// The addresses for a place in a fabric.
RelayMemberArgs relayMemberArgs(const FabricPlace& place, uint16_t port);

class RelayMember {
 public:
  static Result<std::shared_ptr<RelayMember>> create(RelayMemberArgs args);
  RelayMember(const RelayMember&) = delete;
  RelayMember& operator=(const RelayMember&) = delete;
  ~RelayMember();

  const std::vector<NeighbourRelay>& neighbours() const { return args_.neighbours; }
  bool dialsDirectly() const { return args_.direct; }
  // The communicator is going to dial the target, or has connected with it.
  void expect(const Address& target);
  void reached(const Address& target, const RelayWay& way);

  // If another process has the relay of this machine, asks it until it knows `target`.
  void ask(const Address& target);
  void watch(PollSet& set) const;
  void step(const PollSet& set);
  // Why neighbours cannot use the relay of this machine. Empty if they can. For errors.
  std::string problem() const;

 private:
  explicit RelayMember(RelayMemberArgs args) : args_(std::move(args)) {}
  bool readAnswer(const PollSet& set);
  Status becomeRelay();
  void setProblem(const std::string& why);

  const RelayMemberArgs args_;
  std::shared_ptr<Relay> relay_;  // null if another process of this machine has it
  RelayTargets::Owner owner_ = 0;
  std::map<std::string, std::pair<Address, std::optional<RelayWay>>> targets_;  // by the text of their address
  std::optional<Address> asked_;
  std::optional<RelayConnector> question_;
  Deadline next_ = Deadline::in({});
  mutable Mutex mutex_;
  std::string problem_ BPS_GUARDED_BY(mutex_);
};

// The number of relays of this process whose threads have not ended. Only tests call this function.
size_t runningRelays();

}  // namespace bps
