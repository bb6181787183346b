#include "src/control/hub/server_pool.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {

void ServerPool::start(Deadline giveUp) {
  started_ = true;
  giveUp_ = giveUp;
  for (const ServerTarget& target : args_.targets) {
    Server server;
    server.name = target.name;
    server.dialer =
        std::make_unique<Dialer>(DialArgs{target.addresses, args_.credentials, Purpose::kServer, args_.job}, giveUp);
    servers_.push_back(std::move(server));
  }
}

void ServerPool::watch(PollSet& set) const {
  for (const Server& server : servers_) {
    if (server.dialer) server.dialer->watch(set);
    if (server.link) server.link->watch(set);
    if (server.state == State::kAwaitingOffer) set.wakeAt(giveUp_.at());
    if (server.state == State::kProposed) set.wakeAt(openBy_.at());
  }
}

Status ServerPool::step(const PollSet& set) {
  for (Server& server : servers_) BPS_TRY(advance(server, set));
  if (stale_) sendProposal();
  return {};
}

Status ServerPool::advance(Server& server, const PollSet& set) {
  switch (server.state) {
    case State::kLeftOut:
      return {};
    case State::kDialing:
      return dial(server, set);
    case State::kAwaitingOffer:
      if (giveUp_.passed()) return leaveOut(server, "it does not say what it offers");
      return listen(server, set);
    case State::kProposed:
      if (openBy_.passed()) return leaveOut(server, "it does not open the job");
      return listen(server, set);
    case State::kOffered:
    case State::kOpened:
      return listen(server, set);
  }
  return {};
}

Status ServerPool::dial(Server& server, const PollSet& set) {
  Result<Progress> progress = server.dialer->step(set);
  if (!progress.ok()) {
    if (server.dialer->mismatch()) return std::move(progress).status().within("server " + server.name + " refuses");
    return leaveOut(server, progress.error().message());
  }
  if (std::move(progress).value() == Progress::kPending) return {};
  server.link = std::make_unique<Link>(server.dialer->take(), "server " + server.name, args_.credentials.timeoutMs);
  server.dialer.reset();
  server.state = State::kAwaitingOffer;
  return {};
}

Status ServerPool::listen(Server& server, const PollSet& set) {
  Status status = server.link->tick(set);
  while (status.ok() && server.link) {
    Result<std::optional<Frame>> came = server.link->next();
    if (!came.ok()) {
      status = std::move(came).status();
      break;
    }
    const std::optional<Frame> frame = std::move(came).value();
    if (!frame) return {};
    BPS_TRY(handle(server, *frame));
  }
  return status.ok() ? Status() : leaveOut(server, status.message());
}

Status ServerPool::handle(Server& server, const Frame& frame) {
  if (frame.header.type == MessageType::kRefusal) {
    Result<Refusal> refusal = decode<Refusal>(frame.payload);
    return refusal.ok() ? refused(server, std::move(refusal).value()) : leaveOut(server, refusal.error().message());
  }
  if (frame.header.type == MessageType::kFailure) {
    Result<FailureMessage> failed = decode<FailureMessage>(frame.payload);
    return leaveOut(server, failed.ok() ? std::move(failed).value().text : "its failure cannot be read");
  }
  if (frame.header.type == MessageType::kOffer && server.state == State::kAwaitingOffer) {
    Result<Offer> offer = decode<Offer>(frame.payload);
    if (!offer.ok()) return leaveOut(server, offer.error().message());
    server.bytesPerSecond = std::move(offer).value().bytesPerSecond;
    server.state = State::kOffered;
    return {};
  }
  if (frame.header.type == MessageType::kJobOpened) {
    Result<JobOpened> opened = decode<JobOpened>(frame.payload);
    if (!opened.ok()) return leaveOut(server, opened.error().message());
    // An answer to an earlier proposal is not the one that counts.
    if (std::move(opened).value().proposal == proposal_ && server.state == State::kProposed)
      server.state = State::kOpened;
    return {};
  }
  return leaveOut(server, fmt::format("unexpected message {}", static_cast<int>(frame.header.type)));
}

Status ServerPool::refused(Server& server, const Refusal& refusal) {
  if (refusal.kind == Refusal::Kind::kMismatch)
    return failure(refusal.code, "server {} refuses: {}", server.name, refusal.text);
  return leaveOut(server, refusal.text);
}

Status ServerPool::leaveOut(Server& server, const std::string& why) {
  stale_ = stale_ || server.state == State::kProposed || server.state == State::kOpened;
  server.state = State::kLeftOut;
  server.dialer.reset();
  server.link.reset();
  if (args_.required)
    return failure(Code::kRemote, "server {} cannot be used: {} (BPS_REQUIRE_SERVERS=1)", server.name, why);
  logWarn(Subsystem::kInit, "server {} is left out: {}", server.name, why);
  return {};
}

bool ServerPool::settled() const {
  return std::none_of(servers_.begin(), servers_.end(), [](const Server& server) {
    return server.state == State::kDialing || server.state == State::kAwaitingOffer;
  });
}

void ServerPool::propose(const Roster& ranks) {
  roster_ = ranks;
  sendProposal();
}

void ServerPool::sendProposal() {
  stale_ = false;
  ++proposal_;
  openBy_ = Deadline::in(std::chrono::milliseconds(args_.credentials.timeoutMs / 4));
  roster_.servers.clear();
  for (const Server& server : servers_)
    if (server.state != State::kLeftOut) roster_.servers.push_back({server.name, server.bytesPerSecond});
  if (roster_.servers.empty() && !servers_.empty())
    logWarn(Subsystem::kInit, "no summation server can be used: running with k = 0");
  OpenJob message{proposal_, static_cast<uint32_t>(roster_.machines.size()), encode(roster_)};
  for (Server& server : servers_) {
    if (server.state == State::kLeftOut) continue;
    server.link->send(message);
    server.state = State::kProposed;
    ++message.endpoint;
  }
}

bool ServerPool::agreed() const {
  return proposed() && !stale_ && std::all_of(servers_.begin(), servers_.end(), [](const Server& server) {
           return server.state == State::kOpened || server.state == State::kLeftOut;
         });
}

std::string ServerPool::pending() const {
  std::string names;
  for (const Server& server : servers_)
    if (server.state != State::kLeftOut && server.state != State::kOpened)
      names += (names.empty() ? "" : ", ") + server.name;
  return names;
}

std::vector<std::unique_ptr<Link>> ServerPool::tell(const Status& failure) {
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
    if (server.state != State::kOpened) continue;
    server.link->send(MessageType::kBegin);
    links.push_back(std::move(server.link));
  }
  servers_.clear();
  return links;
}

}  // namespace bps
