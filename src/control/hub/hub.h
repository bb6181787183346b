// Hub: rank 0's end of the star, and the one that decides.
//
//   meeting (ranks join, servers are reached) → opening (servers open the job) → running → leaving → over
//                                        any failure → failed → over
//
// A start that must fail fails when all ranks have come, so that each hears why, or at the deadline.
//
// What a peer may send, by state (hearts beat in all of them):
//   a newcomer          join, once                                        hub/rank_admission.h
//   meeting, opening    a rank that has joined: nothing. A server: hub/server_pool.h
//   running             ranks and servers: round part (the one that is due, hub/control_op_table.h), suspect, goodbye,
//   failure failed, leaving     anything; nobody looks at it
// Anything else breaks the protocol. A newcomer then loses its connection and nothing else happens; what a rank or a
// server of the roster breaks ends the communicator, with its name.
//
// The first failure that the hub learns of is the communicator's: it goes to all ranks and servers in the same words
// and later ones are dropped. A suspicion becomes a failure only if no direct evidence (a broken connection, silence)
// and no goodbye has come within a short window. What comes to light after this process itself was stopped is told as
// its own doing: the others have given it up.
//
// Belongs to the control thread.
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
#include "src/control/hub/server_pool.h"
#include "src/control/hub/stall_detector.h"
#include "src/control/pause_detector.h"
#include "src/control/rendezvous/rendezvous_client.h"
#include "src/control/unique_id.h"

namespace bps {

struct HubArgs {
  UniqueId id;
  Credentials credentials;  // of the ranks
  Join join;                // rank 0's own
  JobSettings settings;
  ServerPoolArgs servers;
  std::string interfaces;  // BPS_SOCKET_IFNAME
  PortRange ports{};       // that the hub may listen on, if the unique id says none
  Deadline deadline = Deadline::never();
  Status startError;  // why the communicator cannot start, if so: all ranks are to hear it
};

class Hub final : public ControlNode {
 public:
  static Result<std::unique_ptr<Hub>> create(HubArgs args, ControlNodeEvents& events);

  void startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) override;
  void report(Status failure) override;
  void suspect(size_t member, std::string text) override;
  void leave() override;
  void progress(const Heartbeat& heartbeat) override {
    if (stalls_) stalls_->onHeartbeat(0, heartbeat);
  }
  void watch(PollSet& set) const override;
  void step(const PollSet& set) override;
  bool isFlushed() const override;

 private:
  enum class State { kJoining, kOpening, kRunning, kFailed, kLeaving, kOver };
  struct Member {  // ranks 0..N-1, then servers; rank 0 has no link
    std::unique_ptr<Link> link;
    bool left = false;
  };
  struct Suspicion {
    size_t member;
    std::string text;
    Deadline deadline;
  };

  Hub(HubArgs args, std::optional<AuthListener> authListener, ControlNodeEvents& events);
  void registerWithRendezvous(const Address& hub);
  Status advance(const PollSet& set);
  Status stepJoining(const PollSet& set);
  void failStart(Status why);
  Status open();
  Status checkServersUsable() const;
  Status begin();
  Status listen(const PollSet& set);
  Status listenTo(size_t member, const PollSet& set);
  bool isExpected(MessageType type) const;
  Status handle(size_t member, const Frame& frame);
  Status addOpInput(size_t member, ControlOpInput part);
  void finishOp(ControlOp kind);
  void refuseSplit(size_t rank, uint32_t number, const std::string& why);
  Status memberLeft(size_t member);
  Status addSuspicion(const Suspect& suspect);
  Status checkDeadlines();
  Status checkStalls();
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
  Status failure_;  // told to the others, and not yet to this rank: its process may end at once, and its words with it
  Status startError_;  // known before all ranks have come: fails when they have
  Deadline failureDeliveryDeadline_ = Deadline::never();
  Roster roster_;
  std::optional<ControlOpTable> ops_;
  std::array<uint32_t, kControlOps> ownOpNumbers_{};
  std::vector<Suspicion> suspicions_;
  std::optional<StallDetector> stalls_;  // while running
  Deadline nextStallCheck_ = Deadline::in({});
};

}  // namespace bps
