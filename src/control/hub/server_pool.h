// ServerPool: the servers of BPS_SERVERS while a communicator starts: reached, asked, agreed on, handed to the hub.
//
// Each server on its own:  looking up its name → dialing → awaiting its offer → offered → proposed → opened,  or left
// out on the way, with a warning (BPS_REQUIRE_SERVERS=1: an error): its name is not found, nobody answers, somebody
// refuses, it breaks the protocol. When all ranks have come and every server has offered or is left out, the hub
// proposes a roster. A server that then drops out makes a new proposal without it necessary; the others open the job
// anew. When all of the last proposal have opened, its roster is final. Belongs to the control thread.
//
// What a server may send, by state; anything else leaves it out:
//   awaiting its offer   offer, refusal, failure
//   offered              refusal, failure
//   proposed, opened     job opened (once for each proposal, in their order), refusal, failure
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
  // Fails when a server is left out that is required.
  Status step(const PollSet& set);

  bool allResponded() const;
  void propose(const Roster& ranks);
  bool proposed() const { return proposal_ > 0; }
  bool allOpened() const;
  const Roster& roster() const { return roster_; }
  std::string pending() const;  // the names that have not settled or opened, for messages

  // The communicator has failed: every server that was reached is told; the links, for what is still to be sent.
  std::vector<std::unique_ptr<Link>> sendFailure(const Status& failure);
  // Lets the job begin; the links in the roster's order.
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
    uint32_t answered = 0;  // the last proposal that it opened
  };
  Status advance(Server& server, const PollSet& set);
  Status lookUp(Server& server);
  Status dial(Server& server, const PollSet& set);
  Status listen(Server& server, const PollSet& set);
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
  bool proposalStale_ = false;  // a server of the proposal has dropped out
};

}  // namespace bps
