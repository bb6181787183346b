// Dialer: connects to one accepting peer and performs the handshake. While the peer does not answer, the Dialer tries
// again after a pause.
//
// The Dialer ends with an authenticated Peer or with a failure. The Dialer fails if the peer refuses the connection, if
// the peer cannot prove that it holds the key, or if the deadline passes. If the deadline passes, the failure contains
// the reason of the last attempt. A peer that refuses the connection is not authenticated. The text of its refusal is
// therefore shortened, and characters that are not printable are replaced. The Dialer never blocks. Only one thread
// uses a Dialer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/socket.h"
#include "src/control/link/handshake.h"
#include "src/control/link/poll_set.h"

namespace bps {

struct DialArgs {
  std::vector<Address> addresses;  // the addresses are tried one after the other
  Credentials credentials;
  Purpose purpose = Purpose::kJoin;
  uint64_t job = 0;  // as in ConnectingHandshake
};

class Dialer {
 public:
  Dialer(DialArgs args, Deadline deadline) : args_(std::move(args)), deadline_(deadline) {}

  void watch(PollSet& set) const;
  Result<Progress> step(const PollSet& set);
  Peer take() { return handshake_->take(); }

 private:
  enum class State { kPausing, kConnecting, kHandshaking };
  Result<Progress> pause();
  Result<Progress> connect(const PollSet& set);
  Result<Progress> handshake(const PollSet& set);
  void retry(const Status& why);
  const Address& address() const { return args_.addresses[attempt_ % args_.addresses.size()]; }

  State state_ = State::kPausing;
  DialArgs args_;
  Deadline deadline_;
  Deadline next_ = Deadline::in({});
  size_t attempt_ = 0;
  UniqueFd fd_;
  std::unique_ptr<ConnectingHandshake> handshake_;
  bool fresh_ = false;
  std::string lastReason_ = "no answer";
};

}  // namespace bps
