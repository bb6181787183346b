// Hub: rank 0's end of the star, and the one that decides.
//
//   meeting (ranks join, servers are reached) → opening (servers open the job) → running → leaving → over
//                                        any failure → failed → over
//
// A start that must fail fails when all ranks have come, so that each hears why, or at the deadline.
//
// What a peer may send, by state (hearts beat in all of them):
//   a newcomer          join, once                                        hub/meeting.h
//   meeting, opening    a rank that has joined: nothing. A server: hub/server_pool.h
//   running             ranks and servers: round part (the one that is due, hub/rounds.h), suspect, goodbye, failure
//   failed, leaving     anything; nobody looks at it
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
#include "src/control/hub/meeting.h"
#include "src/control/hub/rounds.h"
#include "src/control/hub/server_pool.h"
#include "src/control/hub/waits.h"
#include "src/control/own_pause.h"
#include "src/control/root/root_call.h"
#include "src/control/star.h"
#include "src/control/unique_id.h"

namespace bps {

struct HubArgs {
  UniqueId id;
  Credentials credentials;  // of the ranks
  Join join;                // rank 0's own
  Settings settings;
  ServerPoolArgs servers;
  std::string interfaces;  // BPS_SOCKET_IFNAME
  PortRange ports{};       // that the hub may listen on, if the unique id says none
  Deadline deadline = Deadline::never();
  Status unable;  // why the communicator cannot start, if so: all ranks are to hear it
};

class Hub final : public Star {
 public:
  static Result<std::unique_ptr<Hub>> create(HubArgs args, StarEvents& events);

  void round(RoundKind kind, std::vector<Blob> blobs, Deadline deadline) override;
  void report(Status failure) override;
  void suspect(size_t member, std::string text) override;
  void leave() override;
  void progress(const Heartbeat& heartbeat) override {
    if (waits_) waits_->hear(0, heartbeat);
  }
  void watch(PollSet& set) const override;
  void step(const PollSet& set) override;
  bool quiet() const override;

 private:
  enum class State { kMeeting, kOpening, kRunning, kFailed, kLeaving, kOver };
  struct Member {  // ranks 0..N-1, then servers; rank 0 has no link
    std::unique_ptr<Link> link;
    bool left = false;
  };
  struct Suspicion {
    size_t member;
    std::string text;
    Deadline deadline;
  };

  Hub(HubArgs args, std::optional<Doorman> doorman, StarEvents& events);
  void tellRoot(const Address& hub);
  Status advance(const PollSet& set);
  Status meet(const PollSet& set);
  void cannotStart(Status why);
  Status open();
  Status checkServersServe() const;
  Status begin();
  Status listen(const PollSet& set);
  Status listenTo(size_t member, const PollSet& set);
  bool due(MessageType type) const;
  Status handle(size_t member, const Frame& frame);
  Status addPart(size_t member, RoundPart part);
  void finishRound(RoundKind kind);
  void refuseSplit(size_t rank, uint32_t number, const std::string& why);
  Status memberLeft(size_t member);
  Status addSuspicion(const Suspect& suspect);
  Status checkDeadlines();
  Status checkWaits();
  Status checkStart() const;
  void seeOff(const PollSet& set);
  void broadcast(MessageType type, const Blob& payload, size_t except = 0);
  void fail(const Status& why);
  Status explained(const Status& failure) const;

  State state_ = State::kMeeting;
  HubArgs args_;
  StarEvents& events_;
  Meeting meeting_;
  ServerPool servers_;
  OwnPause pause_;
  std::unique_ptr<RootCall> root_;
  Deadline started_ = Deadline::in({});
  std::vector<Member> members_;
  Status failure_;  // told to the others, and not yet to this rank: its process may end at once, and its words with it
  Status unable_;   // known before all ranks have come: fails when they have
  Deadline tellBy_ = Deadline::never();
  Roster roster_;
  std::optional<Rounds> rounds_;
  std::array<uint32_t, kRoundKinds> ownRounds_{};
  std::vector<Suspicion> suspicions_;
  std::optional<Waits> waits_;  // while running
  Deadline waitsAt_ = Deadline::in({});
};

}  // namespace bps
