// RankAdmission: accepts the connections of joining ranks at the hub, checks their join messages and knows which ranks
// are missing.
//
// The hub gets the Link of a rank as soon as this rank has joined. The hub can therefore notice the death of that rank
// while other ranks are still joining. The first message on a new connection must be a join message. If a new
// connection breaks the protocol, it is closed without other effects. The RankAdmission belongs to the Hub, and only
// the control thread uses it.
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
  RankAdmission(RankTable table, std::optional<AuthListener> listener, uint32_t timeoutMs, Deadline deadline);

  void watch(PollSet& set) const;
  // Fails if a rank disagrees with the hub about the number of ranks.
  Status step(const PollSet& set);

  struct JoinedRank {
    uint32_t rank;
    std::unique_ptr<Link> link;
  };
  std::vector<JoinedRank> takeJoinedRanks() { return std::exchange(joinedRanks_, {}); }
  const RankTable& table() const { return table_; }
  // The earliest deadline of the ranks that have joined.
  Deadline deadline() const { return deadline_; }
  // An error text such as "2 of 8 ranks missing: 2, 5; waited 10 s at 127.0.0.1:4567".
  std::string missing() const;

  // close() stops listening and closes connections that have not joined. sendFailure() sends the failure to such
  // connections before it closes them.
  void close();
  void sendFailure(const Status& failure);
  // Sends the queued output to a rank that has left, then closes its connection.
  void flushAndClose(std::unique_ptr<ControlSocket> socket) { listener_->flushAndClose(std::move(socket)); }
  bool isFlushed() const { return !listener_ || listener_->idle(); }

 private:
  struct JoiningPeer {
    std::unique_ptr<Link> link;
    Deadline deadline;
  };
  void addPeer(Peer peer);
  // True if the rank on this connection has joined or the connection must be closed. Fails in the same cases as step().
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
