// Dialer: reaches one accepting peer: connect, handshake, and again after a pause while nobody answers there.
//
// Ends with an authenticated Peer, or with a failure: the peer refused (or proved to be another one), or the deadline
// passed; then the failure says what stood in the way last. Who refuses has proved nothing: its words are quoted, short
// and printable. Non-blocking; belongs to one thread.
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
  std::vector<Address> addresses;  // tried in turn
  Credentials credentials;
  Purpose purpose = Purpose::kJoin;
  uint64_t job = 0;  // as ConnectingHandshake
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
