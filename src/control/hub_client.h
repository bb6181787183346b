// HubClient: the ControlNode of every rank except rank 0. A HubClient has one control connection, which leads to the
// hub.
//
//   asking the rendezvous server → dialing the hub → awaiting the roster → running → (hub has left) → leaving → over
//                                                                               ↘ (hub is lost) ↗
// Only asynchronous training goes on after the hub is lost.
//
// If this rank detects a failure, the HubClient sends the failure to the hub and waits. The HubClient then delivers the
// failure that the hub sends to all ranks. If the hub does not send a failure in time, the HubClient delivers this
// rank's own failure.
//
// The hub may send the following messages in each state.
//   awaiting the roster   roster, refusal, failure
//   running, leaving      operation result (if an operation waits for it), left (once per member), server event,
//                         goodbye, failure
// Any other message and any malformed result breaks the protocol; this rank then fails with an error that names the
// hub. Every result that reaches the caller has the right number of items and no item that is too long. In every result
// this rank's own item is unchanged.
//
// The HubClient belongs to the ControlPlane, and only the control thread uses it.
#pragma once
#include <array>
#include <memory>
#include <optional>

#include "src/control/control_node.h"
#include "src/control/link/dialer.h"
#include "src/control/link/link.h"
#include "src/control/rendezvous/rendezvous_client.h"
#include "src/control/unique_id.h"

namespace bps {

struct HubClientArgs {
  UniqueId id;
  Credentials credentials;
  Join join;
  Deadline deadline;
  std::string hubName = "rank 0";         // for errors before the hub has sent the roster
  std::shared_ptr<ClockOffset> clock{};   // null: the clock of the hub is not measured
  std::shared_ptr<RelayMember> relays{};  // as in DialArgs
};

class HubClient final : public ControlNode {
 public:
  HubClient(HubClientArgs args, ControlNodeEvents& events);

  void startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) override;
  void report(Status failure) override;
  void suspect(size_t member, std::string text) override;
  void reply(ServerReply reply) override {
    if (state_ == State::kRunning) hub_->send(reply);
  }
  void proposeRate(size_t, double) override {}  // rank 0 judges the rates
  void leave() override;
  void setHeartbeat(const Heartbeat& heartbeat) override {
    if (hub_) hub_->setHeartbeat(heartbeat);
  }
  void watch(PollSet& set) const override;
  void step(const PollSet& set) override;
  bool isFlushed() const override;

 private:
  enum class State { kAskingRendezvous, kDialingHub, kAwaitingRoster, kRunning, kHubLeft, kHubLost, kLeaving, kOver };
  struct PendingOp {  // an operation that waits for its result
    Blob mine;        // this rank's own item
    Deadline deadline;
  };
  struct Ops {  // the operations of one kind
    uint32_t number = 0;
    std::optional<PendingOp> pending;
  };
  struct HeldFailure {  // a failure that is delivered unless the hub sends a failure first
    size_t member;
    Status failure;
    Deadline deadline;
  };

  void refuseOp(ControlOp kind);
  void refusePendingOps();
  Status advance(const PollSet& set);
  Status askRendezvous(const PollSet& set);
  Status dialHub(const PollSet& set);
  Status receive(const PollSet& set);
  bool isExpected(MessageType type) const;
  Status handle(const Frame& frame);
  Status handleRoster(const Frame& roster);
  Status answer(const Frame& frame);
  Status checkResult(const ControlOpResult& answer) const;
  Status handleLeft(const Frame& frame);
  Status handleServerEvent(const Frame& frame);
  void dropHeldFailures(size_t member);
  void memberLeft(size_t member);
  void handleGoodbye();
  void checkDeadlines();
  void holdFailure(size_t member, Status failure);
  bool losesHub() const;
  void loseHub(const Status& why);
  void loseWithoutHub(size_t member, const std::string& why);
  void startDialing(const Address& hub);
  DialArgs dialArgs(const Address& address, Purpose purpose) const;
  Status withWay(Status failure) const;
  bool joining() const { return state_ == State::kAskingRendezvous || state_ == State::kAwaitingRoster; }
  void fail(const Status& failure);
  void finish();

  State state_ = State::kDialingHub;
  HubClientArgs args_;
  ControlNodeEvents& events_;
  std::unique_ptr<RendezvousClient> rendezvous_;
  std::unique_ptr<Dialer> dialer_;  // after it has reached the hub, it knows the way
  std::unique_ptr<Link> hub_;
  Roster roster_;
  std::vector<bool> left_;             // by member; also true for an absent server
  std::optional<ServerEvent> change_;  // the first event of the current change of the servers
  std::array<Ops, kControlOps> ops_;   // by kind
  std::vector<HeldFailure> heldFailures_;
  bool eventsDone_ = false;  // this rank has failed or left; only leaveDone() may still be called
};

}  // namespace bps
