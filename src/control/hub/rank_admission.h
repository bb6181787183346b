// RankAdmission: the hub's part of the join: lets ranks in, checks what they say, and knows who is missing.
//
// Who joins becomes a Link at once, so that a rank that dies while others are still on their way is noticed. A newcomer
// may send a join and nothing before it; what it does wrong costs its connection only. Belongs to the control thread.
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
  // Fails when a rank's word makes the communicator impossible.
  Status step(const PollSet& set);

  struct JoinedRank {
    uint32_t rank;
    std::unique_ptr<Link> link;
  };
  std::vector<JoinedRank> takeJoinedRanks() { return std::exchange(joinedRanks_, {}); }
  const RankTable& table() const { return table_; }
  // When the first of those who have come loses patience.
  Deadline deadline() const { return deadline_; }
  // "2 of 8 ranks missing: 2, 5; waited 10 s at 127.0.0.1:4567"
  std::string missing() const;

  // Stops listening. Those on their way are told the failure, if there is one.
  void close();
  void sendFailure(const Status& failure);
  // Sends what is queued to a rank that has left, and closes.
  void flushAndClose(std::unique_ptr<ControlSocket> socket) { listener_->flushAndClose(std::move(socket)); }
  bool isFlushed() const { return !listener_ || listener_->idle(); }

 private:
  struct JoiningPeer {
    std::unique_ptr<Link> link;
    Deadline deadline;
  };
  void addPeer(Peer peer);
  // Whether the newcomer is no longer one; fails as step().
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
