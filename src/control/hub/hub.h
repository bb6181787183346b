// Hub: the ControlNode of rank 0. The Hub determines the roster and decides which failure the communicator reports.
//
//   joining (ranks join, servers are reached) → opening (servers open the job) → running → leaving → over
//                                        any failure → failed → over
//
// If the hub knows early that the communicator cannot start, it still waits until all ranks have joined or the deadline
// has passed. Each rank then receives the reason.
//
// The table lists the messages that a peer may send in each state. Heartbeats are allowed in all states.
//   a new connection    join, once                                        hub/rank_admission.h
//   joining, opening    a rank that has joined may send nothing; for servers see hub/server_pool.h
//   running             ranks and servers: input of the current operation (hub/control_op_table.h), suspect, goodbye,
//                       failure; ranks: server reply; servers: drain
//   failed, leaving     any message; the hub ignores it
// Any other message breaks the protocol. If a new connection breaks the protocol, the hub closes the connection and
// does nothing else. If a rank or server of the roster breaks the protocol, the communicator fails with an error that
// names this rank or server.
//
// The communicator goes on without a server that is lost while the hub is running. The hub then closes its link to the
// server, and tells every rank with a ServerEvent. The ranks take part in a kRecovery, and their
// CallSchedulers move the server's chunks to other owners. A server is lost in these cases:
//   - its link breaks, it is silent for BPS_SERVER_TIMEOUT, it breaks the protocol or reports a failure of its own;
//   - a rank suspects the server, or the server suspects a rank, until the suspicion becomes final;
//   - the server and a rank cannot reach each other (hub/stall_detector.h).
// The communicator still fails if ranks disagree, or if the servers have not confirmed that all lanes are connected.
//
// Any other failure that reaches the hub first becomes the communicator's failure. The hub sends this failure to all
// ranks and servers in the same words and drops later failures. A suspicion becomes a failure if neither direct
// evidence (a broken connection or silence) nor a goodbye arrives within a short time. If rank 0's process was stopped
// for a while, its peers may have given up the hub. The hub then reports the failures that follow as its own fault.
//
// The Hub belongs to the ControlPlane, and only the control thread uses it.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/control/control_node.h"
#include "src/control/hub/control_op_table.h"
#include "src/control/hub/rank_admission.h"
#include "src/control/hub/relayed_losses.h"
#include "src/control/hub/stall_detector.h"
#include "src/control/hub/suspicions.h"
#include "src/control/pause_detector.h"
#include "src/control/rendezvous/rendezvous_client.h"
#include "src/control/servers/server_changes.h"
#include "src/control/servers/server_pool.h"
#include "src/control/shrink_group.h"
#include "src/control/unique_id.h"

namespace bps {

struct HubArgs {
  UniqueId id;
  Credentials credentials;  // of the ranks
  Join join;                // rank 0's own
  JobSettings settings;
  ServerPoolArgs servers;
  std::string serverList;                 // BPS_SERVERS
  std::string interfaces;                 // BPS_SOCKET_IFNAME
  PortRange ports{};                      // ports for the hub's listener if the unique id has no port
  ShrinkGroup shrink{};                   // if it has a standby socket, the hub listens there
  std::shared_ptr<RelayMember> relays{};  // as in DialArgs
  Deadline deadline = Deadline::never();
  Status startError;  // the reason why the communicator cannot start, if it is known; sent to all ranks
};

class Hub final : public ControlNode, public ServerChanges::Host {
 public:
  static Result<std::unique_ptr<Hub>> create(HubArgs args, ControlNodeEvents& events);

  void startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) override;
  void report(Status failure) override {
    pause_.update();
    fail(failure);
  }
  void suspect(size_t member, std::string text) override;
  void reply(ServerReply reply) override;
  void proposeRate(size_t server, double factor) override {
    if (changes_) changes_->onRate(server, factor);
  }
  void leave() override;
  void setHeartbeat(const Heartbeat& heartbeat) override {
    if (stalls_) stalls_->onHeartbeat(0, heartbeat, ++ownHeartbeats_);
  }
  void watch(PollSet& set) const override;
  void step(const PollSet& set) override;
  bool isFlushed() const override { return state_ != State::kFailed && state_ != State::kLeaving; }

 private:
  enum class State { kJoining, kOpening, kRunning, kFailed, kLeaving, kOver };
  struct Member {  // members are ranks 0..N-1, then servers; rank 0 has no link
    std::unique_ptr<Link> link;
    bool left = false, lost = false;  // a lost member has also left
  };

  Hub(HubArgs args, std::optional<AuthListener> authListener, ControlNodeEvents& events);
  void registerWithRendezvous(const Address& hub);
  Status advance(const PollSet& set);
  Status stepJoining(const PollSet& set);
  void failStart(Status why);
  Status open();
  Status checkServersUsable() const;
  Status checkFabric(Roster& roster) const;
  Status begin();
  Status receive(const PollSet& set);
  Status receiveFrom(size_t member, const PollSet& set);
  bool isExpected(MessageType type) const;
  Status handle(size_t member, const Frame& frame);
  Status addOpInput(size_t member, ControlOpInput part);
  void finishOp(ControlOp kind);
  // refuseOwnOp() ends an operation of rank 0 that cannot complete because rank 0 has left. refuseOwnOps() ends all
  // that wait for other members.
  void refuseOwnOp(ControlOp kind) { events_.answered(kind, Status(Code::kRemote, "rank 0, the hub, has left")); }
  void refuseOwnOps() {
    for (size_t kind = 0; kind < kControlOps; ++kind)
      if (ownOpNumbers_[kind] > ops_->number(static_cast<ControlOp>(kind))) refuseOwnOp(static_cast<ControlOp>(kind));
  }
  void refuseSplit(size_t rank, uint32_t number, const std::string& why);
  Status memberLeft(size_t member);
  void memberGone(size_t member);
  void tell(size_t rank, const ServerEvent& event) override;
  void takeIn(size_t server, std::unique_ptr<Link> link) override;
  void sayGoodbye(size_t server) override;
  Status addSuspicion(size_t from, const Suspect& suspect);
  // True if the communicator can go on without this member.
  bool anyRankLeft() const;
  bool mayLose(size_t member) const {
    return state_ == State::kRunning && member >= roster_.ranks.size() && member < members_.size() &&
           ops_->serversConfirmed();
  }
  bool mayLoseRank(size_t member) const {
    return state_ == State::kRunning && roster_.settings.parameters && member > 0 && member < roster_.ranks.size() &&
           ops_->serversConfirmed();
  }
  void loseRank(size_t rank, const Status& why);
  Status lose(size_t member, const Status& why);
  bool holdLoss(size_t member, const Status& why);
  std::string nameOf(size_t member) const {
    return ops_ ? roster_.memberName(member) : admission_.table().name(member);
  }
  Status checkDeadlines();
  Status checkStalls();
  void restartStalls();
  Status checkStart() const;
  void drainMembers(const PollSet& set);
  void broadcast(MessageType type, const Blob& payload, size_t except = 0);
  void fail(const Status& why);
  Status withOwnPause(const Status& failure) const;

  State state_ = State::kJoining;
  HubArgs args_;
  ControlNodeEvents& events_;
  RankAdmission admission_;
  ServerPool servers_;
  PauseDetector pause_;
  std::unique_ptr<RendezvousClient> rendezvous_;
  Deadline started_ = Deadline::in({});
  std::vector<Member> members_;
  // The failure that is already queued for the other members. The hub reports this failure to rank 0's caller later:
  // the process of rank 0 may exit right after the report and lose queued output.
  Status failure_;
  Status startError_;  // may be known before all ranks have joined, but is reported after that
  Deadline failureDeliveryDeadline_ = Deadline::never();
  Roster roster_;
  std::optional<ControlOpTable> ops_;
  std::array<uint32_t, kControlOps> ownOpNumbers_{};
  Suspicions suspicions_;
  RelayedLosses losses_;
  uint64_t ownHeartbeats_ = 0;
  uint32_t lost_ = 0;                       // number of lost servers
  std::optional<StallDetector> stalls_;     // while running
  std::unique_ptr<ServerChanges> changes_;  // while running, if there are places for servers
  Deadline nextStallCheck_ = Deadline::in({});
};

}  // namespace bps
