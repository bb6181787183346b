#include "net_plugin/tcp/listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "net_plugin/log.h"
#include "net_plugin/tcp/congestion.h"
#include "net_plugin/tcp/options.h"
#include "src/base/format.h"

namespace bps::plugin::tcp {
namespace {

// The right caller sends its hello as soon as it is connected.
constexpr std::chrono::seconds kHelloTime{5};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::create(const Device& device) {
  UniqueFd socket = BPS_TRY(listenOn(device.address, device.ports));
  HandleData handle;
  handle.address = BPS_TRY(localAddress(socket.get()));
  handle.token = BPS_TRY(randomToken());
  handle.sockets = device.sockets;
  std::string kernelsChoice = unpaceAccepted(socket.get());
  return std::unique_ptr<Listener>(new Listener(std::move(socket), handle, device.patience, std::move(kernelsChoice)));
}

// Takes a bounded number of callers per call. When all places are taken, or all descriptors of the process, the oldest
// goes, who had most time.
Status Listener::admitCallers() {
  for (size_t i = 0; i < kMostCallers; ++i) {
    if (std::any_of(parties_.begin(), parties_.end(), isComplete)) return {};
    Result<std::optional<UniqueFd>> accepted = acceptFrom(socket_.get());
    if (callers_.size() == kMostCallers || (!accepted.ok() && !callers_.empty())) {
      turnAway(callers_.front().socket, Status(Code::kRemote, "too many callers that say nothing"));
      callers_.erase(callers_.begin());
      if (!accepted.ok()) continue;
    }
    std::optional<UniqueFd> socket = BPS_TRY(std::move(accepted));
    if (!socket) return {};
    callers_.push_back({std::move(*socket), Deadline::in(kHelloTime), {}, 0});
    hearFrom(callers_.size() - 1);  // before a later caller takes its place
  }
  return {};
}

Result<std::optional<Hello>> Listener::hear(Caller& caller) const {
  while (caller.got < caller.hello.size()) {
    const ssize_t got =
        ::recv(caller.socket.get(), caller.hello.data() + caller.got, caller.hello.size() - caller.got, MSG_DONTWAIT);
    if (got == 0) return Status(Code::kRemote, "it hung up");
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN) return systemFailure("recv", errno);
    if (got < 0 && caller.deadline.passed()) return Status(Code::kRemote, "it said nothing for too long");
    if (got < 0) return std::optional<Hello>();
    caller.got += static_cast<size_t>(got);
  }
  return std::optional<Hello>(BPS_TRY(parseHello(caller.hello, handle_.token)));
}

void Listener::hearFrom(size_t first) {
  for (size_t i = first; i < callers_.size();) {
    Caller& caller = callers_[i];
    const Status outcome = [&]() -> Status {
      const std::optional<Hello> hello = BPS_TRY(hear(caller));
      return hello ? join(*hello, caller.socket) : Status();
    }();
    if (!outcome.ok()) turnAway(caller.socket, outcome);
    if (!outcome.ok() || !caller.socket) callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
    else ++i;
  }
}

// The caller was given the handle, or repeats what one said who was.
Status Listener::join(const Hello& hello, UniqueFd& socket) {
  const auto same = [&](const Party& party) { return party.connection == hello.connection; };
  auto party = std::find_if(parties_.begin(), parties_.end(), same);
  if (party == parties_.end()) {
    BPS_TRY(checkNew(hello.connection));
    if (parties_.size() == kMostParties) parties_.erase(parties_.begin());
    const Deadline deadline = Deadline::in(std::max<Patience>(kHelloTime, patience_));
    parties_.push_back({hello.connection, hello.carrier, deadline, std::vector<UniqueFd>(hello.sockets), 0});
    party = std::prev(parties_.end());
  }
  if (party->sockets.size() != hello.sockets || party->sockets[hello.index])
    return failure(Code::kRemote, "socket {} of {} does not fit its connection", hello.index, hello.sockets);
  setOptions(socket.get(), hello.sockets, patience_);
  paceFromOutside(socket.get(), kernelsChoice_);
  party->sockets[hello.index] = std::move(socket);
  ++party->come;
  return {};
}

Status Listener::checkNew(uint64_t connection) {
  if (std::find(begun_.begin(), begun_.end(), connection) != begun_.end())
    return {Code::kRemote, "it repeats the hello of an earlier connection"};
  if (begun_.size() == kMostConnections)
    return failure(Code::kRemote, "this listener has had {} connections, as many as it takes", kMostConnections);
  begun_.push_back(connection);
  return {};
}

void Listener::turnAway(const UniqueFd& socket, const Status& why) {
  if (++turnedAway_ > kMostReports) return;
  Result<Address> from = peerAddress(socket.get());
  logInfo("{}: turned away a caller from {}: {}", handle_.address.text(),
          from.ok() ? std::move(from).value().text() : "?", why.message());
}

Listener::Arrival Listener::completeParty() {
  std::erase_if(parties_, [](const Party& party) { return !isComplete(party) && party.deadline.passed(); });
  const auto party = std::find_if(parties_.begin(), parties_.end(), isComplete);
  if (party == parties_.end()) return {};
  Arrival arrival{std::move(party->sockets), party->carrier};
  parties_.erase(party);
  return arrival;
}

Result<Listener::Arrival> Listener::accept() {
  BPS_TRY(admitCallers());
  hearFrom(0);
  return completeParty();
}

}  // namespace bps::plugin::tcp
