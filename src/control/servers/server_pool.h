// ServerPool: connects to the servers of BPS_SERVERS while a communicator starts, and agrees with these servers on the
// roster.
//
// A server passes through these states: looking up its name → dialing → awaiting its offer → offered → proposed →
// opened. A server is excluded if its name is not found, or if it does not answer, refuses the job or breaks the
// protocol. The hub then logs a warning. If BPS_REQUIRE_SERVERS=1, an excluded server is an error.
//
// When all ranks have joined and every server has sent its offer or is excluded, the hub proposes a roster. If a server
// is excluded after that, the hub proposes a new roster without this server, and the remaining servers open the job
// again. The roster is final when all servers of the last proposal have opened the job.
//
// A server may send the following messages in each state. Any other message excludes the server.
//   awaiting its offer   offer, refusal, failure
//   offered              refusal, failure
//   proposed, opened     job opened (once for each proposal, in their order), refusal, failure
//
// The ServerPool belongs to the Hub, which takes the links when the job begins. Only the control thread uses the
// ServerPool.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/base/io/host_lookup.h"
#include "src/control/link/dialer.h"
#include "src/control/link/link.h"
#include "src/control/servers/server_list.h"
#include "src/wire/roster.h"

namespace bps {

struct ServerPoolArgs {
  std::vector<ServerTarget> targets;
  Credentials credentials;
  uint64_t job = 0;
  bool required = false;  // BPS_REQUIRE_SERVERS
  bool quiet = false;     // no warning about an excluded server
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
  bool excludedAll() const;
  // The targets take the places from `firstPlace` on among the servers of the roster.
  void propose(const Roster& roster, size_t firstPlace = 0);
  bool proposed() const { return proposal_ > 0; }
  bool allOpened() const;
  const Roster& roster() const { return roster_; }  // excluded servers are absent
  std::string pending() const;                      // for messages: names of the servers that have not opened the job

  // Sends the failure of the communicator to every connected server. Returns the links, which may still have queued
  // output.
  std::vector<std::unique_ptr<Link>> sendFailure(const Status& failure);
  // Tells the servers that the job begins. Returns a link for every target, which is null if the server is excluded.
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
  size_t firstPlace_ = 0;
  uint32_t proposal_ = 0;
  bool proposalStale_ = false;  // a server of the last proposal has been excluded
};

}  // namespace bps
