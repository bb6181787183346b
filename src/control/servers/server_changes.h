// ServerChanges: lets servers join, leave and get another rate in a running communicator. The hub has one change at a
// time.
//
// The hub dials every listed server that the communicator runs without, again and again: servers that were not there at
// the start, that were lost, or that were added to the file of BPS_SERVERS=@FILE, which the hub reads again when it has
// changed. A server leaves if it drains (MessageType::kDrain) or if the file no longer lists it.
//
//   join:   opening -> handles -> connecting -> ready -> done -> none
//   leave:                                      ready -> done -> none
//   rate:                                       ready -> done -> none
//
// When all ranks are ready, the change takes effect with the first call that no rank has cut into chunks. Before that
// point, any failure only ends the change, and the hub dials again later. After that point a joining server is a member
// of the communicator, and its loss is handled like any other loss. ServerEvent lists the messages, and
// src/comm/servers/server_change.h is the counterpart in the ranks.
//
// The ServerChanges belong to the Hub, and only the control thread uses them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/control/servers/server_file.h"
#include "src/control/servers/server_pool.h"
#include "src/wire/server_messages.h"

namespace bps {

class ServerChanges {
 public:
  // What the hub does for a change.
  class Host {
   public:
    virtual ~Host() = default;
    virtual void tell(size_t rank, const ServerEvent& event) = 0;
    virtual void takeIn(size_t server, std::unique_ptr<Link> link) = 0;  // the server becomes a member
    virtual void sayGoodbye(size_t server) = 0;                          // the server is no longer a member
  };

  // `roster` and `host` must outlive this object. `servers` has a target for every place of the roster that is taken.
  ServerChanges(const Roster& roster, ServerPoolArgs servers, ServerFile file, Host& host);

  void watch(PollSet& set) const;
  void step(const PollSet& set);
  // Fails if the rank breaks the protocol.
  Status onReply(size_t rank, ServerReply reply);
  void onDrain(size_t server) { places_[server].drains = true; }
  // The server achieves this fraction of its rate.
  void onRate(size_t server, double factor) { places_[server].newRateFactor = factor; }
  void onLost(size_t server);
  // The server has said goodbye. The hub does not dial it again.
  void onGoodbye(size_t server);
  // The rank leaves. No change can begin any more, and one that has not taken effect is aborted.
  void onRankLeft(size_t rank);

 private:
  enum class Step { kNone, kOpening, kHandles, kConnecting, kReady, kDone };
  struct Place {
    std::optional<ServerTarget> target;  // none if no server has taken this place
    double bytesPerSecond = 0;
    bool listed = false;                  // the list of servers contains the target
    bool present = false;                 // the server is a member
    bool drains = false;                  // the server has asked to leave
    std::optional<double> newRateFactor;  // the ranks do not know it yet
    Deadline nextDial = Deadline::never();
    std::chrono::milliseconds pause{};    // after the latest failed join, or the loss of a server that had just joined
    Deadline proven = Deadline::never();  // the server has been a member long enough to be dialed at once after a loss
    std::unique_ptr<ServerPool> dialing;
  };
  struct Change {
    Step step = Step::kNone;
    ServerEvent::Kind what = ServerEvent::Kind::kLeaving;  // or kJoining or kNewRate
    uint32_t server = 0, number = 0;
    bool joins() const { return what == ServerEvent::Kind::kJoining; }
    std::unique_ptr<Link> link;                       // of a joining server, until it is a member
    std::vector<std::optional<ServerReply>> replies;  // to the current step, by rank
    std::optional<std::vector<Blob>> handles;         // of the joining server
    bool connected = false;                           // the joining server has all its connections
    Deadline deadline = Deadline::never();
  };

  bool changing() const { return change_.step != Step::kNone; }
  void readFile();
  void assignPlaces();
  bool mayDial(size_t server) const;
  void dial(const PollSet& set);
  void stepDialing(size_t server, const PollSet& set);
  void beginNext();
  void beginJoin(size_t server);
  void stepLink(const PollSet& set);
  Status receive(const PollSet& set);
  Status handle(const Frame& frame);
  void beginStep(Step step, ServerEvent::Kind kind);
  ServerEvent event(ServerEvent::Kind kind) const;
  void announce(const ServerEvent& event);
  bool allReplied() const;
  void advance();
  void distributeHandles();
  void takeEffect();
  void finish();
  void abort(const std::string& why);
  static void lengthenPause(Place& place);
  std::string missing() const;

  const Roster& roster_;
  ServerPoolArgs servers_;
  ServerFile file_;
  Host& host_;
  std::vector<Place> places_;
  std::vector<ServerTarget> unassigned_;  // servers of the file that have no place yet
  Change change_;
  uint32_t changes_ = 0;  // number of changes so far
  bool rankLeft_ = false;
  std::vector<bool> left_;  // by rank
};

}  // namespace bps
