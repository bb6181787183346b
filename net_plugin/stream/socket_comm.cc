#include "net_plugin/stream/socket_comm.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "src/base/format.h"
#include "src/base/io/socket.h"

namespace bps::plugin::stream {
namespace {

// An idle socket is checked for a hang-up only before every 16th sleep, so idle connections cost
// almost no system calls. A hang-up ends every sleep immediately. The connection therefore finds a
// hang-up after at most 16 short sleeps.
constexpr unsigned kIdleArmsPerCheck = 16;
// After this many polls without a sleep, the socket is removed from epoll. The removal costs a
// system call now and another one at the next arm(). In return, the kernel makes no wake-up check
// for each packet.
constexpr unsigned kPollsUntilUnwatch = 64;

std::string peerText(int socket) {
  Result<Address> address = peerAddress(socket);
  return address.ok() ? std::move(address).value().text() : "a disconnected peer";
}

}  // namespace

SocketComm::SocketComm(std::vector<UniqueFd> sockets, PeerTimeout peerTimeout)
    : peerTimeout_(peerTimeout),
      ackCheck_(AckWatch::checkInterval(peerTimeout)),
      peer_(peerText(sockets.front().get())) {
  for (UniqueFd& fd : sockets) sockets_.push_back({.fd = std::move(fd)});
}

// Duplicates the descriptors for the reverse direction, so either direction may be closed first.
Result<std::unique_ptr<Comm>> SocketComm::reverse() {
  if (hasReverse_ || requests().end() > 0)
    return Status(Code::kInvalidUsage,
                  "reverse() must be called at most once, before the first message of the connection");
  std::vector<UniqueFd> again;
  for (const Socket& socket : sockets_) {
    again.emplace_back(::fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!again.back()) return systemFailure("duplicating a socket", errno);
  }
  std::unique_ptr<SocketComm> other = reversed(std::move(again));
  for (SocketComm* each : {this, other.get()}) {
    each->hasReverse_ = true;
    each->onReversed();
  }
  return std::unique_ptr<Comm>(std::move(other));
}

void SocketComm::ignoreHangups() {
  for (Socket& socket : sockets_) socket.hangupIgnored = true;
}

Status SocketComm::peerClosed() const { return failure(Code::kRemote, "{} closed the connection", peer_); }

Status SocketComm::socketError(int error) const {
  const Status system = systemFailure("connection to " + peer_, error);
  return {Code::kRemote, system.message()};
}

Status SocketComm::checkAcks() {
  if (!ackCheck_.isDue()) return {};
  const AckWatch::TimePoint now = std::chrono::steady_clock::now();
  for (Socket& socket : sockets_)
    if (socket.acks.isPeerGone(readAckState(socket.fd.get()), now, peerTimeout_))
      return failure(Code::kRemote, "{} has not acknowledged any data for {:g} s", peer_,
                     std::chrono::duration<double>(peerTimeout_).count());
  return {};
}

void SocketComm::finishCompleteMessages() {
  while (!requests().idle() && messageTracker_.isComplete(requests().active()))
    requests().finishFront(messageTracker_.take(requests().active()));
}

void SocketComm::countPoll() {
  if (++polls_ != kPollsUntilUnwatch) return;
  for (Socket& socket : sockets_)
    keepFirstFailure(interest_.set(socket.fd.get(), socket.current, Interest::Event::kNothing));
}

// If no message is posted, arm() waits only for the end of the connection, which no other call can
// report.
Result<bool> SocketComm::arm() {
  polls_ = 0;
  if (firstFailure().ok()) keepFirstFailure(flush());
  if (firstFailure().ok()) keepFirstFailure(checkAcks());
  const bool idle = requests().idle();
  if (requests().hasDone() || hasMoreToMove_) return true;
  for (size_t i = 0; i < sockets_.size() && firstFailure().ok(); ++i)
    keepFirstFailure(armSocket(i, idle ? Interest::Event::kHangup : prepareSleep(i)));
  if (firstFailure().ok()) return false;
  if (!idle) return true;  // test() reports the failure
  return firstFailure().clone();
}

Status SocketComm::armSocket(size_t index, Interest::Event what) {
  Socket& socket = sockets_[index];
  if (what == Interest::Event::kHangup && socket.hangupIgnored) what = Interest::Event::kNothing;
  // The peer of an idle connection usually sends nothing before the next receive is posted. So the socket keeps its
  // event at first, which saves two system calls for each message. Data or a hang-up ends the next sleep in any case.
  const bool idleReader = what == Interest::Event::kHangup && socket.current == Interest::Event::kReading;
  if (!std::exchange(socket.idleReader, idleReader) && idleReader) return {};
  if (socket.current != what) {
    socket.idleArms = 0;
    return interest_.set(socket.fd.get(), socket.current, what);
  }
  if (what == Interest::Event::kHangup && ++socket.idleArms % kIdleArmsPerCheck == 0) return checkHangup(index);
  return {};
}

Status SocketComm::checkHangup(size_t index) {
  Socket& socket = sockets_[index];
  pollfd state{.fd = socket.fd.get(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&state, 1, 0) <= 0) return {};
  char byte = 0;
  const ssize_t waiting = ::recv(socket.fd.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (waiting < 0) return errno == EAGAIN || errno == EINTR ? Status() : socketError(errno);
  if (waiting == 0 && !hasUnreceivedData(index)) BPS_TRY(onHangup(index));
  socket.hangupIgnored = true;
  return interest_.set(socket.fd.get(), socket.current, Interest::Event::kNothing);
}

}  // namespace bps::plugin::stream
