// RelayConnection: one connection that a relay accepted: its request, the connection to the target, and the bytes in
// both directions.
//
// When one side ends its output, the RelayConnection passes the end on, and waits for the other side for a bounded
// time. When one of the two connections breaks, it closes both. Only the thread of the relay uses a RelayConnection.
#pragma once
#include <chrono>
#include <optional>

#include "src/base/deadline.h"
#include "src/base/io/wire_io.h"
#include "src/control/relay/relay_connector.h"
#include "src/control/relay/relay_targets.h"

namespace bps {

class RelayConnection {
 public:
  // A client has `timeout` to send its request, but at most two seconds. `timeout` also limits how long bytes may wait
  // for a side that does not read, and for a side whose peer has ended.
  RelayConnection(UniqueFd client, std::chrono::milliseconds timeout);

  void watch(PollSet& set) const;
  // False if the connection has ended.
  bool step(const PollSet& set, const RelayTargets& targets);
  // True until the request has arrived.
  bool awaitsRequest() const { return state_ == State::kRequest; }
  // Refuses a client that has not sent its request.
  void refuse(RelayReply::Outcome why) { reply({why}); }

 private:
  enum class State { kRequest, kConnecting, kAsking, kForwarding };
  struct Direction {
    Blob pending{};
    size_t sent = 0;
    bool ended = false;  // the sender has ended its output, and the receiver has been told
    bool moved = false;  // in the last step

    bool waits() const { return sent < pending.size(); }
  };

  bool receiveRequest(const RelayTargets& targets);
  bool open(const RelayRequest& request, const RelayTargets& targets);
  bool connect(const PollSet& set);
  bool ask(const PollSet& set);
  bool reply(const RelayReply& reply);
  bool forward();
  static bool pump(Direction& direction, int from, int to);
  static void watchSide(PollSet& set, int fd, const Direction& output, const Direction& input);

  UniqueFd client_, target_;
  std::chrono::milliseconds timeout_;
  State state_ = State::kRequest;
  Deadline deadline_;
  Blob request_{};
  RelayTargets::Found found_{};
  std::optional<RelayConnector> upstream_;
  std::optional<Address> address_;  // of the target
  Direction toTarget_{}, toClient_{};
};

}  // namespace bps
