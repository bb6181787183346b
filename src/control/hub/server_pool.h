// ServerPool: connects to the servers of BPS_SERVERS while a communicator starts, and agrees with them on the roster.
//
// State of each server: looking up its name → dialing → awaiting its offer → offered → proposed → opened. A server is
// excluded with a warning (with BPS_REQUIRE_SERVERS=1 with an error) if its name is not found, it does not answer, it
// refuses or it breaks the protocol.
//
// When all ranks have joined and every server has offered or is excluded, the hub proposes a roster. If a server is
// excluded after that, the hub makes a new proposal without it and the remaining servers open the job again. When all
// servers of the last proposal have opened, the roster is final.
//
// What a server may send, by state; anything else excludes it:
//   awaiting its offer   offer, refusal, failure
//   offered              refusal, failure
//   proposed, opened     job opened (once for each proposal, in their order), refusal, failure
//
// The Hub owns it and takes the links when the job begins. Belongs to the control thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/base/io/host_lookup.h"
#include "src/control/hub/server_list.h"
#include "src/control/link/dialer.h"
#include "src/control/link/link.h"
#include "src/wire/roster.h"

namespace bps {

struct ServerPoolArgs {
  std::vector<ServerTarget> targets;
  Credentials credentials;
  uint64_t job = 0;
  bool required = false;  // BPS_REQUIRE_SERVERS
};

class ServerPool {
 public:
  explicit ServerPool(ServerPoolArgs args) : args_(std::move(args)) {}

  void start(Deadline reachDeadline);
  bool started() const { return started_; }
  void watch(PollSet& set) const;
  // Fails if a required server is excluded.
  Status step(const PollSet& set);

  bool allResponded() const;
  void propose(const Roster& ranks);
  bool proposed() const { return proposal_ > 0; }
  bool allOpened() const;
  const Roster& roster() const { return roster_; }
  std::string pending() const;  // names of the servers that the current step waits for, for messages

  // The communicator has failed: sends the failure to every connected server. Returns the links that still have output
  // queued.
  std::vector<std::unique_ptr<Link>> sendFailure(const Status& failure);
  // Starts the job; returns the links in roster order.
  std::vector<std::unique_ptr<Link>> begin();

 private:
  enum class State { kLookingUp, kDialing, kAwaitingOffer, kOffered, kProposed, kOpened, kExcluded };
  struct Server {
    std::string name;
    State state = State::kLookingUp;
    std::unique_ptr<HostLookup> lookup;
    std::unique_ptr<Dialer> dialer;
    std::unique_ptr<Link> link;
    double bytesPerSecond = 0;
    uint32_t answered = 0;  // the last proposal that the server opened
  };
  Status advance(Server& server, const PollSet& set);
  Status lookUp(Server& server);
  Status dial(Server& server, const PollSet& set);
  Status receive(Server& server, const PollSet& set);
  static bool isExpected(const Server& server, MessageType type);
  Status handle(Server& server, const Frame& frame);
  Status opened(Server& server, uint32_t proposal);
  Status exclude(Server& server, const std::string& why);
  void sendProposal();

  ServerPoolArgs args_;
  std::vector<Server> servers_;
  bool started_ = false;
  Deadline reachDeadline_ = Deadline::never(), openDeadline_ = Deadline::never();
  Roster roster_;
  uint32_t proposal_ = 0;
  bool proposalStale_ = false;  // a server of the proposal has been excluded
};

}  // namespace bps
