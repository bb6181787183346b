// Spoke: a rank's end of the star, for every rank but 0. One connection, to the hub.
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

#include "src/control/link/dialer.h"
#include "src/control/link/link.h"
#include "src/control/root/root_call.h"
#include "src/control/star.h"
#include "src/control/unique_id.h"

namespace bps {

struct SpokeArgs {
  UniqueId id;
  Credentials credentials;
  Join join;
  Deadline deadline;
};

class Spoke final : public Star {
 public:
  Spoke(SpokeArgs args, StarEvents& events);

  void round(RoundKind kind, std::vector<Blob> blobs, Deadline deadline) override;
  void report(Status failure) override;
  void suspect(size_t member, std::string text) override;
  void leave() override;
  void progress(const Heartbeat& heartbeat) override {
    if (hub_) hub_->setHeartbeat(heartbeat);
  }
  void watch(PollSet& set) const override;
  void step(const PollSet& set) override;
  bool quiet() const override;

 private:
  enum class State { kAskingRoot, kDialingHub, kAwaitingRoster, kRunning, kHubLeft, kLeaving, kOver };
  struct Round {  // that waits for its answer
    RoundKind kind;
    Blob mine;  // what this rank gave for itself
    Deadline deadline;
  };
  struct Own {  // what this rank believes until the hub speaks
    size_t member;
    Status failure;
    Deadline deadline;
  };

  Status advance(const PollSet& set);
  Status askRoot(const PollSet& set);
  Status dialHub(const PollSet& set);
  Status listen(const PollSet& set);
  bool due(MessageType type) const;
  Status handle(const Frame& frame);
  Status enter(const Frame& roster);
  Status answer(const Frame& frame);
  Status checkAnswer(const RoundAnswer& answer) const;
  Status left(const Frame& frame);
  void memberLeft(size_t member);
  void hubSaysGoodbye();
  void checkDeadlines();
  void keepOwn(size_t member, Status failure);
  void startDialing(const Address& hub);
  bool joining() const { return state_ == State::kAskingRoot || state_ == State::kAwaitingRoster; }
  void fail(const Status& failure);
  void over();

  State state_ = State::kDialingHub;
  SpokeArgs args_;
  StarEvents& events_;
  std::unique_ptr<RootCall> root_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<Link> hub_;
  Roster roster_;
  std::vector<bool> left_;
  std::array<uint32_t, kRoundKinds> rounds_{};
  std::optional<Round> pending_;
  std::vector<Own> own_;
  bool silent_ = false;  // failed, or gone: nothing more is delivered
};

}  // namespace bps
