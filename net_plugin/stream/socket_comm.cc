#include "net_plugin/stream/socket_comm.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "src/base/format.h"
#include "src/base/socket.h"

namespace bps::plugin::stream {
namespace {

// A socket on which nothing is under way is asked for a hang-up only every so many sleeps: a hang-up ends sleeps at
// once, so it is found after as many short rounds, and the many idle connections of a thread cost its sleeps almost
// nothing.
constexpr unsigned kIdleArmsPerCheck = 16;
// To tell the kernel costs a call now and one at the next arm(); not to, 0.7 us of the 10 that an exchange of 8 bytes
// takes.
constexpr unsigned kPollsAwake = 64;

std::string peerText(int socket) {
  Result<Address> address = peerAddress(socket);
  return address.ok() ? std::move(address).value().text() : "a peer that is gone";
}

}  // namespace

SocketComm::SocketComm(std::vector<UniqueFd> sockets, Patience patience)
    : patience_(patience), pace_(AckWatch::lookEvery(patience)), peer_(peerText(sockets.front().get())) {
  for (UniqueFd& fd : sockets) sockets_.push_back({.fd = std::move(fd)});
}

// Each of the two has descriptors of its own, so either may be closed first.
Result<std::unique_ptr<Comm>> SocketComm::reverse() {
  if (shared_ || requests().end() > 0)
    return Status(Code::kInvalidUsage,
                  "the other direction of a connection is asked for once, before its first message");
  std::vector<UniqueFd> again;
  for (const Socket& socket : sockets_) {
    again.emplace_back(::fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!again.back()) return systemFailure("duplicating a socket", errno);
  }
  std::unique_ptr<SocketComm> other = reversed(std::move(again));
  for (SocketComm* each : {this, other.get()}) {
    each->shared_ = true;
    each->onShared();
  }
  return std::unique_ptr<Comm>(std::move(other));
}

void SocketComm::ignoreHangups() {
  for (Socket& socket : sockets_) socket.silent = true;
}

Status SocketComm::peerClosed() const { return failure(Code::kRemote, "{} closed the connection", peer_); }

Status SocketComm::socketFailed(int error) const {
  const Status system = systemFailure("connection to " + peer_, error);
  return {Code::kRemote, system.message()};
}

Status SocketComm::checkAcks() {
  if (!pace_.isDue()) return {};
  const AckWatch::TimePoint now = std::chrono::steady_clock::now();
  for (Socket& socket : sockets_)
    if (socket.acks.look(ackStateOf(socket.fd.get()), now, patience_))
      return failure(Code::kRemote, "{} has acknowledged nothing for {:g} s", peer_,
                     std::chrono::duration<double>(patience_).count());
  return {};
}

void SocketComm::finishWhole() {
  while (!requests().idle() && assembly_.whole(requests().active()))
    requests().finishFront(assembly_.take(requests().active()));
}

void SocketComm::notePoll() {
  if (++polls_ != kPollsAwake) return;
  for (Socket& socket : sockets_) note(interest_.set(socket.fd.get(), socket.current, Interest::For::kNothing));
}

// With nothing posted only the end of the connection is of interest, and no call but this one can report it.
Result<bool> SocketComm::arm() {
  polls_ = 0;
  if (firstFailure().ok()) note(flush());
  if (firstFailure().ok()) note(checkAcks());
  const bool idle = requests().idle();
  if (requests().hasDone() || more_) return true;
  for (size_t i = 0; i < sockets_.size() && firstFailure().ok(); ++i)
    note(sleepOn(i, idle ? Interest::For::kHangup : prepareSleep(i)));
  if (firstFailure().ok()) return false;
  if (!idle) return true;  // test() tells
  return firstFailure().clone();
}

Status SocketComm::sleepOn(size_t index, Interest::For what) {
  Socket& socket = sockets_[index];
  if (what == Interest::For::kHangup && socket.silent) what = Interest::For::kNothing;
  if (socket.current != what) {
    socket.idleArms = 0;
    return interest_.set(socket.fd.get(), socket.current, what);
  }
  if (what == Interest::For::kHangup && ++socket.idleArms % kIdleArmsPerCheck == 0) return examineHangup(index);
  return {};
}

Status SocketComm::examineHangup(size_t index) {
  Socket& socket = sockets_[index];
  pollfd state{.fd = socket.fd.get(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&state, 1, 0) <= 0) return {};
  char byte = 0;
  const ssize_t waiting = ::recv(socket.fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (waiting < 0) return errno == EAGAIN || errno == EINTR ? Status() : socketFailed(errno);
  if (waiting == 0 && !hasUnclaimed(index)) BPS_TRY(hungUp(index));
  socket.silent = true;
  return interest_.set(socket.fd.get(), socket.current, Interest::For::kNothing);
}

}  // namespace bps::plugin::stream
