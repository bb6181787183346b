// Dialer: connects to one accepting peer and performs the handshake. While the peer does not answer, the Dialer tries
// again after a pause.
//
// On a fabric the peer may be out of reach. Then the Dialer takes turns: it dials directly, then through the relay of
// each neighbour (src/control/relay/relay.h). A turn has a time limit, because a network may drop packets silently.
//
// The Dialer ends with an authenticated Peer or with a failure. The Dialer fails if the peer refuses the connection, if
// the peer cannot prove that it holds the key, or if the deadline passes. If the deadline passes, the failure contains
// the reason of the last attempt. A peer that refuses the connection is not authenticated. The text of its refusal is
// therefore shortened, and characters that are not printable are replaced. The Dialer never blocks. Only one thread
// uses a Dialer.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/socket.h"
#include "src/control/link/handshake.h"
#include "src/control/link/poll_set.h"
#include "src/control/relay/relay_member.h"

namespace bps {

struct DialArgs {
  std::vector<Address> addresses;  // the addresses are tried one after the other
  Credentials credentials;
  Purpose purpose = Purpose::kJoin;
  uint64_t job = 0;                       // as in ConnectingHandshake
  std::shared_ptr<RelayMember> relays{};  // null if all peers are in reach
};

class Dialer {
 public:
  Dialer(DialArgs args, Deadline deadline);

  void watch(PollSet& set) const;
  Result<Progress> step(const PollSet& set);
  Peer take() { return handshake_->take(); }
  // How the Dialer has reached the peer.
  const RelayWay& way() const { return way_; }

 private:
  enum class State { kPausing, kConnecting, kAskingRelay, kHandshaking };
  Result<Progress> pause();
  Status start();
  Result<Progress> askRelay(const PollSet& set);
  void startHandshake();
  std::chrono::milliseconds turnTime() const;
  Result<Progress> connect(const PollSet& set);
  Result<Progress> handshake(const PollSet& set);
  void retry(const Status& why);
  // A cycle has the direct turns, then one turn for each relay and address.
  size_t directTurns() const;
  size_t turns() const;
  size_t turn() const { return attempt_ % turns(); }
  size_t cycle() const { return attempt_ / turns(); }
  const Address& address() const;
  const NeighbourRelay* relay() const;  // null in a direct turn
  std::string peerText() const;
  std::string reasonText() const;
  void note(std::string why) { reasons_[relay() == nullptr ? 0 : 1] = std::move(why); }
  std::string withRelay(const std::string& why) const;

  State state_ = State::kPausing;
  DialArgs args_;
  Deadline deadline_;
  Deadline next_ = Deadline::in({});
  size_t attempt_ = 0;
  Deadline turnEnd_ = Deadline::never();
  UniqueFd fd_;
  std::optional<RelayConnector> relayConnector_;
  RelayWay way_;
  std::unique_ptr<ConnectingHandshake> handshake_;
  bool fresh_ = false;
  std::array<std::string, 2> reasons_;  // of the last direct attempt, and of the last one through a relay
};

}  // namespace bps
