#include "net_plugin/tcp/listener.h"

#include <sys/socket.h>

#include <cerrno>

#include "net_plugin/log.h"
#include "src/base/format.h"

namespace bps::plugin::tcp {
namespace {

// The right caller sends its hello as soon as it is connected.
constexpr std::chrono::seconds kHelloTime{5};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::create(const Device& device) {
  UniqueFd socket = BPS_TRY(listenOn(device.address));
  HandleData handle;
  handle.address = BPS_TRY(localAddress(socket.get()));
  handle.token = BPS_TRY(randomToken());
  return std::unique_ptr<Listener>(new Listener(std::move(socket), handle));
}

// Takes a bounded number of callers per call; when all places are taken the oldest, who had most time, goes.
Status Listener::admitCallers() {
  for (size_t i = 0; i < kMostCallers; ++i) {
    std::optional<UniqueFd> socket = BPS_TRY(acceptFrom(socket_.get()));
    if (!socket) return {};
    if (callers_.size() == kMostCallers) turnAway(0, Status(Code::kRemote, "too many callers that say nothing"));
    callers_.push_back({.socket = std::move(*socket), .deadline = Deadline::in(kHelloTime)});
    Caller& caller = callers_.back();
    Result<Progress> heard = hear(caller);  // before a later caller takes its place
    if (!heard.ok()) turnAway(callers_.size() - 1, heard.error());
    else if (std::move(heard).value() == Progress::kDone) return {};
  }
  return {};
}

Result<Progress> Listener::hear(Caller& caller) const {
  while (caller.got < caller.hello.size()) {
    const ssize_t got =
        ::recv(caller.socket.get(), caller.hello.data() + caller.got, caller.hello.size() - caller.got, MSG_DONTWAIT);
    if (got == 0) return Status(Code::kRemote, "it hung up");
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN) return systemFailure("recv", errno);
    if (got < 0 && caller.deadline.passed()) return Status(Code::kRemote, "it said nothing for too long");
    if (got < 0) return Progress::kPending;
    caller.got += static_cast<size_t>(got);
  }
  caller.carrier = BPS_TRY(checkHello(caller.hello, handle_.token));
  return Progress::kDone;
}

void Listener::turnAway(size_t index, const Status& why) {
  if (++turnedAway_ <= kMostReports) {
    Result<Address> from = peerAddress(callers_[index].socket.get());
    logInfo("{}: turned away a caller from {}: {}", handle_.address.text(),
            from.ok() ? std::move(from).value().text() : "?", why.message());
  }
  callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(index));
}

Result<Listener::Arrival> Listener::accept() {
  BPS_TRY(admitCallers());
  for (size_t i = 0; i < callers_.size();) {
    Result<Progress> heard = hear(callers_[i]);
    if (!heard.ok()) {
      turnAway(i, heard.error());
    } else if (std::move(heard).value() == Progress::kDone) {
      Arrival arrival{std::move(callers_[i].socket), callers_[i].carrier};
      callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
      return arrival;
    } else {
      ++i;
    }
  }
  return Arrival{};
}

}  // namespace bps::plugin::tcp
