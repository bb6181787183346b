// HubClient: a rank's end of the star, for every rank but 0. One connection, to the hub.
//
//   asking the root → dialing the hub → awaiting the roster → running → (hub has left) → leaving → over
//
// A failure that this rank met goes to the hub, and what the hub then tells everybody is what is delivered here too;
// without its word in time the rank's own text stands.
//
// What the hub may send, by state:
//   awaiting the roster   roster, refusal, failure
//   running, leaving      round answer (if a round waits for it), left (once for a member), goodbye, failure
// Anything else, or an answer of another form than the round has, breaks the protocol: this rank fails and names the
// hub. What a round answers to the caller has been checked here: as many items as the round has, none too long, this
// rank's own unchanged.
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
};

class HubClient final : public ControlNode {
 public:
  HubClient(HubClientArgs args, ControlNodeEvents& events);

  void startOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) override;
  void report(Status failure) override;
  void suspect(size_t member, std::string text) override;
  void leave() override;
  void progress(const Heartbeat& heartbeat) override {
    if (hub_) hub_->setHeartbeat(heartbeat);
  }
  void watch(PollSet& set) const override;
  void step(const PollSet& set) override;
  bool isFlushed() const override;

 private:
  enum class State { kAskingRendezvous, kDialingHub, kAwaitingRoster, kRunning, kHubLeft, kLeaving, kOver };
  struct PendingOp {  // that waits for its answer
    ControlOp kind;
    Blob mine;  // what this rank gave for itself
    Deadline deadline;
  };
  struct HeldFailure {  // what this rank believes until the hub speaks
    size_t member;
    Status failure;
    Deadline deadline;
  };

  Status advance(const PollSet& set);
  Status askRendezvous(const PollSet& set);
  Status dialHub(const PollSet& set);
  Status listen(const PollSet& set);
  bool isExpected(MessageType type) const;
  Status handle(const Frame& frame);
  Status handleRoster(const Frame& roster);
  Status answer(const Frame& frame);
  Status checkResult(const ControlOpResult& answer) const;
  Status handleLeft(const Frame& frame);
  void memberLeft(size_t member);
  void handleGoodbye();
  void checkDeadlines();
  void holdFailure(size_t member, Status failure);
  void startDialing(const Address& hub);
  bool joining() const { return state_ == State::kAskingRendezvous || state_ == State::kAwaitingRoster; }
  void fail(const Status& failure);
  void finish();

  State state_ = State::kDialingHub;
  HubClientArgs args_;
  ControlNodeEvents& events_;
  std::unique_ptr<RendezvousClient> rendezvous_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<Link> hub_;
  Roster roster_;
  std::vector<bool> left_;
  std::array<uint32_t, kControlOps> opNumbers_{};
  std::optional<PendingOp> pending_;
  std::vector<HeldFailure> heldFailures_;
  bool eventsDone_ = false;  // failed, or gone: nothing more is delivered
};

}  // namespace bps
