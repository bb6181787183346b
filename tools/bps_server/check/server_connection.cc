#include "tools/bps_server/check/server_connection.h"

#include <poll.h>

#include "src/base/format.h"
#include "src/control/keys/crypto.h"

namespace bps {
namespace {

bool pollFor(int fd, bool write, Deadline deadline) {
  pollfd wait{fd, static_cast<short>(write ? POLLOUT : POLLIN), 0};
  return ::poll(&wait, 1, deadline.leftMs()) > 0;
}

Result<UniqueFd> connectTo(const Address& address, Deadline deadline) {
  UniqueFd fd = BPS_TRY(startConnect(address));
  if (!pollFor(fd.get(), true, deadline))
    return failure(Code::kTimeout, "{} did not answer in time: the host is down or a firewall blocks the connection",
                   address.text());
  BPS_TRY(connectResult(fd.get(), address));
  return fd;
}

Result<Peer> performHandshake(UniqueFd fd, const Address& address, const Credentials& credentials, Deadline deadline) {
  ConnectingHandshake handshake(std::make_unique<ControlSocket>(std::move(fd)), credentials, Purpose::kServer,
                                randomJobId());
  while (true) {
    Result<Progress> progress = handshake.step();
    if (!progress.ok()) {
      const bool mute = handshake.socket().broken() && !handshake.refusal();
      const char* hint = mute ? ": not a bps-server, or it is ending" : "";
      return failure(Code::kRemote, "{}{}", progress.error().message(), hint);
    }
    if (std::move(progress).value() == Progress::kDone) return handshake.take();
    if (deadline.passed())
      return failure(Code::kTimeout, "{} accepts connections but does not answer: not a bps-server, or it is stopped",
                     address.text());
    pollFor(handshake.socket().fd(), handshake.socket().wantsWrite(), deadline);
  }
}

}  // namespace

Result<std::unique_ptr<ServerConnection>> ServerConnection::open(const std::vector<Address>& addresses,
                                                                 const Credentials& credentials,
                                                                 std::chrono::milliseconds answerTimeout) {
  const Deadline deadline = Deadline::in(answerTimeout);
  Status last;
  for (const Address& address : addresses) {
    Result<UniqueFd> fd = connectTo(address, deadline);
    if (!fd.ok()) {
      last = std::move(fd).status();
      continue;
    }
    Peer peer = BPS_TRY(performHandshake(std::move(fd).value(), address, credentials, deadline));
    return std::unique_ptr<ServerConnection>(
        new ServerConnection(std::move(peer), credentials.timeoutMs, answerTimeout));
  }
  return last;
}

Status ServerConnection::pollUntil(PollSet::TimePoint until) {
  PollSet set;
  link_.watch(set);
  set.wakeAt(until);
  BPS_TRY(set.wait());
  BPS_TRY(link_.step(set));
  while (true) {
    std::optional<Frame> frame = BPS_TRY(link_.next());
    if (!frame) return {};
    if (frame->header.type == MessageType::kRefusal)
      return failure(Code::kRemote, "it refused: {}", BPS_TRY(decode<Refusal>(frame->payload)).text);
    if (frame->header.type == MessageType::kFailure)
      return failure(Code::kRemote, "it reported: {}", BPS_TRY(decode<FailureMessage>(frame->payload)).text);
    frames_.push_back(std::move(*frame));
  }
}

Status ServerConnection::keepAlive() { return pollUntil(Deadline::Clock::now()); }

Result<Frame> ServerConnection::next(MessageType expected) {
  const Deadline deadline = answerDeadline();
  while (frames_.empty()) {
    if (deadline.passed())
      return failure(Code::kTimeout, "it has sent nothing for {:g} s",
                     std::chrono::duration<double>(answerTimeout_).count());
    BPS_TRY(pollUntil(deadline.at()));
  }
  Frame frame = std::move(frames_.front());
  frames_.erase(frames_.begin());
  if (frame.header.type == expected) return frame;
  return failure(Code::kRemote, "unexpected message {} instead of {}", static_cast<unsigned>(frame.header.type),
                 static_cast<unsigned>(expected));
}

void ServerConnection::leave() {
  link_.send(MessageType::kGoodbye);
  for (const Deadline deadline = Deadline::in(std::chrono::seconds(1)); !deadline.passed();)
    if (!pollUntil(deadline.at()).ok()) return;
}

}  // namespace bps
