#include "src/control/servers/server_pool.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/frames.h"

namespace bps {
namespace {

constexpr std::chrono::milliseconds kLookupPollInterval(20);  // interval between checks of a pending name lookup
// Part of a connection error, because another program may be using the server's port.
constexpr const char* kServerHint = "is a bps-server of this version with the same key (BPS_KEY_FILE) there?";

}  // namespace

void ServerPool::start(Deadline reachDeadline) {
  started_ = true;
  reachDeadline_ = reachDeadline;
  for (const ServerTarget& target : args_.targets) {
    Server server;
    server.name = target.name;
    server.lookup = std::make_unique<HostLookup>(target.where);
    servers_.push_back(std::move(server));
  }
}

void ServerPool::watch(PollSet& set) const {
  for (const Server& server : servers_) {
    if (server.lookup)
      set.wakeAt(server.lookup->ended() ? Deadline::Clock::now() : Deadline::in(kLookupPollInterval).at());
    if (server.dialer) server.dialer->watch(set);
    if (server.link) server.link->watch(set);
    if (server.state == State::kAwaitingOffer) set.wakeAt(reachDeadline_.at());
    if (server.state == State::kProposed) set.wakeAt(openDeadline_.at());
  }
}

Status ServerPool::step(const PollSet& set) {
  for (Server& server : servers_) BPS_TRY(advance(server, set));
  if (proposalStale_) sendProposal();
  return {};
}

Status ServerPool::advance(Server& server, const PollSet& set) {
  switch (server.state) {
    case State::kExcluded:
      return {};
    case State::kLookingUp:
      return lookUp(server);
    case State::kDialing:
      return dial(server, set);
    case State::kAwaitingOffer:
      if (reachDeadline_.passed()) return exclude(server, "it sent no offer in time");
      return receive(server, set);
    case State::kProposed:
      if (openDeadline_.passed()) return exclude(server, "it did not open the job in time");
      return receive(server, set);
    case State::kOffered:
    case State::kOpened:
      return receive(server, set);
  }
  return {};
}

Status ServerPool::lookUp(Server& server) {
  if (!server.lookup->ended() && !reachDeadline_.passed()) return {};
  Result<std::vector<Address>> addresses = server.lookup->take();
  if (!addresses.ok()) return exclude(server, addresses.error().message());
  server.lookup.reset();
  DialArgs dial{std::move(addresses).value(), args_.credentials, Purpose::kServer, args_.job};
  server.dialer = std::make_unique<Dialer>(std::move(dial), reachDeadline_);
  server.state = State::kDialing;
  return {};
}

Status ServerPool::dial(Server& server, const PollSet& set) {
  Result<Progress> progress = server.dialer->step(set);
  if (!progress.ok())
    return exclude(server, reachDeadline_.passed() ? progress.error().message()
                                                   : fmt::format("{}; {}", progress.error().message(), kServerHint));
  if (std::move(progress).value() == Progress::kPending) return {};
  server.link = std::make_unique<Link>(server.dialer->take(), "server " + server.name, args_.credentials.timeoutMs);
  server.dialer.reset();
  server.state = State::kAwaitingOffer;
  return {};
}

Status ServerPool::receive(Server& server, const PollSet& set) {
  Status status = server.link->step(set);
  for (int turn = 0; turn < kFramesPerStep && status.ok(); ++turn) {
    Result<std::optional<Frame>> came = server.link->next();
    if (!came.ok()) {
      status = std::move(came).status();
      break;
    }
    const std::optional<Frame> frame = std::move(came).value();
    if (!frame) return {};
    status = handle(server, *frame);
  }
  return status.ok() ? Status() : exclude(server, status.message());
}

bool ServerPool::isExpected(const Server& server, MessageType type) {
  if (isOneOf(type, {MessageType::kRefusal, MessageType::kFailure})) return true;
  if (server.state == State::kAwaitingOffer) return type == MessageType::kOffer;
  return type == MessageType::kJobOpened && server.state != State::kOffered;
}

// Handles one frame of a server. If handle() fails, the caller excludes the server for the returned reason.
Status ServerPool::handle(Server& server, const Frame& frame) {
  const Link& link = *server.link;
  if (!isExpected(server, frame.header.type)) return unexpectedFrame(link, frame);
  switch (frame.header.type) {
    case MessageType::kRefusal:
      return {Code::kRemote, BPS_TRY(decodeFrom<Refusal>(link, frame)).text};
    case MessageType::kFailure:
      return {Code::kRemote, BPS_TRY(decodeFrom<FailureMessage>(link, frame)).text};
    case MessageType::kOffer:
      server.bytesPerSecond = BPS_TRY(decodeFrom<Offer>(link, frame)).bytesPerSecond;
      server.state = State::kOffered;
      return {};
    default:
      return opened(server, BPS_TRY(decodeFrom<JobOpened>(link, frame)).proposal);
  }
}

// Records which proposal the server has opened. The answer to an earlier proposal does not change the server's state.
Status ServerPool::opened(Server& server, uint32_t proposal) {
  if (proposal <= server.answered || proposal > proposal_)
    return server.link->protocolError(failure(Code::kRemote, "it opened proposal {} after {}, the last one is {}",
                                              proposal, server.answered, proposal_));
  server.answered = proposal;
  if (proposal == proposal_) server.state = State::kOpened;
  return {};
}

Status ServerPool::exclude(Server& server, const std::string& why) {
  proposalStale_ = proposalStale_ || server.state == State::kProposed || server.state == State::kOpened;
  server.state = State::kExcluded;
  server.lookup.reset();
  server.dialer.reset();
  server.link.reset();
  if (args_.required)
    return failure(Code::kRemote, "server {} cannot be used: {} (BPS_REQUIRE_SERVERS=1)", server.name, why);
  if (!args_.quiet) logWarn(Subsystem::kInit, "server {} is left out: {}", server.name, why);
  return {};
}

bool ServerPool::allResponded() const {
  return std::none_of(servers_.begin(), servers_.end(), [](const Server& server) {
    return server.state == State::kLookingUp || server.state == State::kDialing ||
           server.state == State::kAwaitingOffer;
  });
}

bool ServerPool::excludedAll() const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [](const Server& server) { return server.state == State::kExcluded; });
}

void ServerPool::propose(const Roster& roster, size_t firstPlace) {
  roster_ = roster;
  firstPlace_ = firstPlace;
  if (roster_.servers.size() < firstPlace_ + servers_.size())
    roster_.servers.resize(firstPlace_ + servers_.size(), ServerEntry{"", 0, false});
  sendProposal();
}

void ServerPool::sendProposal() {
  proposalStale_ = false;
  ++proposal_;
  openDeadline_ = Deadline::in(std::chrono::milliseconds(args_.credentials.timeoutMs / 4));
  for (size_t i = 0; i < servers_.size(); ++i)
    roster_.servers[firstPlace_ + i] = {servers_[i].name, servers_[i].bytesPerSecond,
                                        servers_[i].state != State::kExcluded};
  if (excludedAll() && !servers_.empty() && !args_.quiet)
    logWarn(Subsystem::kInit, "no summation server is usable: running without servers until one joins");
  OpenJob message{proposal_, 0, encode(roster_)};
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i].state == State::kExcluded) continue;
    message.endpoint = static_cast<uint32_t>(roster_.machines.size() + firstPlace_ + i);
    servers_[i].link->send(message);
    servers_[i].state = State::kProposed;
  }
}

bool ServerPool::allOpened() const {
  return proposed() && !proposalStale_ && std::all_of(servers_.begin(), servers_.end(), [](const Server& server) {
           return server.state == State::kOpened || server.state == State::kExcluded;
         });
}

std::string ServerPool::pending() const {
  std::string names;
  for (const Server& server : servers_)
    if (server.state != State::kExcluded && server.state != State::kOpened)
      names += (names.empty() ? "" : ", ") + server.name;
  return names;
}

std::vector<std::unique_ptr<Link>> ServerPool::sendFailure(const Status& failure) {
  std::vector<std::unique_ptr<Link>> links;
  for (Server& server : servers_) {
    if (!server.link) continue;
    server.link->send(FailureMessage{failure.code(), failure.message()});
    links.push_back(std::move(server.link));
  }
  servers_.clear();
  return links;
}

std::vector<std::unique_ptr<Link>> ServerPool::begin() {
  std::vector<std::unique_ptr<Link>> links;
  for (Server& server : servers_) {
    if (server.state == State::kOpened) server.link->send(MessageType::kBegin);
    else server.link.reset();
    links.push_back(std::move(server.link));
  }
  servers_.clear();
  return links;
}

}  // namespace bps
