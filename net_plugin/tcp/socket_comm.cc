#include "net_plugin/tcp/socket_comm.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "src/base/format.h"
#include "src/base/socket.h"

namespace bps::plugin::tcp {
namespace {

// An idle connection is asked for a hang-up only every so many sleeps: a hang-up ends sleeps at once, so it is found
// after as many short rounds, and the many idle connections of a thread cost its sleeps almost nothing.
constexpr unsigned kIdleArmsPerCheck = 16;

std::string peerText(int socket) {
  Result<Address> address = peerAddress(socket);
  return address.ok() ? std::move(address).value().text() : "a peer that is gone";
}

}  // namespace

SocketComm::SocketComm(UniqueFd socket) : socket_(std::move(socket)), peer_(peerText(socket_.get())) {}

Status SocketComm::peerClosed() const { return failure(Code::kRemote, "{} closed the connection", peer_); }

Status SocketComm::socketFailed(int error) const {
  const Status system = systemFailure("connection to " + peer_, error);
  return {Code::kRemote, system.message()};
}

Result<bool> SocketComm::arm() {
  if (firstFailure().ok()) note(flush());
  if (requests().hasDone() || more_) return true;
  if (!firstFailure().ok()) {
    if (!requests().idle()) return true;  // test() tells
    return firstFailure().clone();
  }
  if (requests().idle()) return armIdle();
  BPS_TRY(interest_.set(socket(), prepareSleep()));
  return false;
}

// With nothing posted only the end of the connection is of interest, and no call but this one can report it.
Result<bool> SocketComm::armIdle() {
  const Interest::For wanted = silent_ ? Interest::For::kNothing : Interest::For::kHangup;
  if (interest_.current() != wanted) {
    BPS_TRY(interest_.set(socket(), wanted));
    idleArms_ = 0;
  } else if (!silent_ && ++idleArms_ % kIdleArmsPerCheck == 0) {
    note(examineHangup());
    if (!firstFailure().ok()) return firstFailure().clone();
  }
  return false;
}

Status SocketComm::examineHangup() {
  pollfd state{.fd = socket(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&state, 1, 0) <= 0) return {};
  char byte = 0;
  const ssize_t waiting = ::recv(socket(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (waiting > 0 || (waiting == 0 && hasUnclaimed())) {
    silent_ = true;
    return interest_.set(socket(), Interest::For::kNothing);
  }
  if (waiting == 0) return peerClosed();
  if (errno == EAGAIN || errno == EINTR) return {};
  return socketFailed(errno);
}

}  // namespace bps::plugin::tcp
