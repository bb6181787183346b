// RankAdmission: the hub's side of joining: accepts ranks, checks their join messages and knows which are missing.
//
// A joined rank becomes a Link at once, so that its death is noticed while others are still joining. A new connection
// must send a join first. If it breaks the protocol, it is closed without other effects. The Hub owns it; belongs to
// the control thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/control/hub/rank_table.h"
#include "src/control/link/auth_listener.h"
#include "src/control/link/link.h"

namespace bps {

class RankAdmission {
 public:
  RankAdmission(const Join& hub, std::optional<AuthListener> listener, uint32_t timeoutMs, Deadline deadline);

  void watch(PollSet& set) const;
  // Fails if a join makes the communicator impossible.
  Status step(const PollSet& set);

  struct JoinedRank {
    uint32_t rank;
    std::unique_ptr<Link> link;
  };
  std::vector<JoinedRank> takeJoinedRanks() { return std::exchange(joinedRanks_, {}); }
  const RankTable& table() const { return table_; }
  // The earliest deadline of the ranks that have joined.
  Deadline deadline() const { return deadline_; }
  // "2 of 8 ranks missing: 2, 5; waited 10 s at 127.0.0.1:4567"
  std::string missing() const;

  // Stops listening. Connections that have not joined receive the failure, if there is one.
  void close();
  void sendFailure(const Status& failure);
  // Sends the queued output of a rank that has left, then closes the connection.
  void flushAndClose(std::unique_ptr<ControlSocket> socket) { listener_->flushAndClose(std::move(socket)); }
  bool isFlushed() const { return !listener_ || listener_->idle(); }

 private:
  struct JoiningPeer {
    std::unique_ptr<Link> link;
    Deadline deadline;
  };
  void addPeer(Peer peer);
  // True if the connection is no longer a new one (it joined or was closed). Fails as step() does.
  Result<bool> receive(JoiningPeer& joining, const PollSet& set);
  Result<bool> admit(JoiningPeer& joining, const Join& join);

  RankTable table_;
  std::optional<AuthListener> listener_;
  uint32_t timeoutMs_;
  Deadline deadline_, since_;
  std::string where_;
  std::vector<JoiningPeer> joiningPeers_;
  std::vector<JoinedRank> joinedRanks_;
};

}  // namespace bps
