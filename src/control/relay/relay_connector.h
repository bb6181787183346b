// RelayConnector: the side that asks a relay for a connection to a target, until the relay has replied.
//
// A RelayConnector never blocks. Only one thread uses it. Its owner sets a time limit.
#pragma once
#include <array>

#include "src/base/io/fd.h"
#include "src/control/link/poll_set.h"
#include "src/control/relay/relay_messages.h"

namespace bps {

class RelayConnector {
 public:
  static Result<RelayConnector> start(const Address& relay, const RelayRequest& request);

  void watch(PollSet& set) const;
  // Returns kDone when the reply has arrived. A failure names the relay.
  Result<Progress> step(const PollSet& set);
  const RelayReply& reply() const { return reply_; }
  // What the reply means, for error texts. Empty if it is kConnected.
  std::string refusalText() const;
  // The connection, which leads to the target if the reply is kConnected.
  UniqueFd take() { return std::move(fd_); }

 private:
  RelayConnector(const Address& relay, const RelayRequest& request, UniqueFd fd)
      : relay_(relay), request_(request), fd_(std::move(fd)) {}
  Status send();

  Address relay_;
  RelayRequest request_;
  UniqueFd fd_;
  bool sent_ = false;
  std::array<uint8_t, RelayReply::kBytes> bytes_{};
  size_t received_ = 0;
  RelayReply reply_;
};

}  // namespace bps
