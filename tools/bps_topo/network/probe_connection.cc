#include "tools/bps_topo/network/probe_connection.h"

#include <poll.h>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr std::chrono::milliseconds kCloseTimeout(1000);

}  // namespace

bool ProbeConnection::poll(bool write, Deadline deadline) const {
  pollfd wait{socket_->fd(), static_cast<short>(write ? POLLOUT : POLLIN), 0};
  return ::poll(&wait, 1, deadline.leftMs()) > 0;
}

Status ProbeConnection::connectionError(const Status& why) const {
  return failure(Code::kRemote, "{}: {}", name_, why.message());
}

Status ProbeConnection::unexpected(const Frame& frame) const {
  return failure(Code::kRemote, "{}: unexpected message of type {}", name_, static_cast<unsigned>(frame.header.type));
}

Status ProbeConnection::flush() {
  const Deadline deadline = peerTimeout();
  while (true) {
    Result<Progress> progress = socket_->flush();
    if (!progress.ok()) return connectionError(progress.error());
    if (std::move(progress).value() == Progress::kDone) return {};
    if (deadline.passed()) return failure(Code::kRemote, "{} accepts no more data", name_);
    poll(true, deadline);
  }
}

Status ProbeConnection::take() {
  Result<std::optional<Frame>> read = socket_->read();
  if (!read.ok()) return connectionError(read.error());
  std::optional<Frame> frame = std::move(read).value();
  if (!frame) return {};
  if (frame->header.type == MessageType::kFailure) {
    const FailureMessage said = BPS_TRY(decode<FailureMessage>(frame->payload));
    return failure(said.code, "{} reports: {}", name_, said.text);
  }
  if (frame->header.type == MessageType::kRefusal) {
    const Refusal said = BPS_TRY(decode<Refusal>(frame->payload));
    busy_ = said.kind == Refusal::Kind::kBusy;
    return failure(said.code, "{}: {}", name_, said.text);
  }
  frames_.push_back(std::move(*frame));
  return {};
}

Result<Frame> ProbeConnection::next() {
  const Deadline deadline = peerTimeout();
  while (frames_.empty()) {
    BPS_TRY(take());
    if (!frames_.empty()) break;
    if (deadline.passed()) return failure(Code::kRemote, "{} has sent nothing for {} ms", name_, peerTimeout_.count());
    poll(false, deadline);
  }
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

Status ProbeConnection::checkPeer() { return take(); }

void ProbeConnection::waitForEof() {
  socket_->shutdownWrite();
  const Deadline deadline = Deadline::in(kCloseTimeout);
  while (socket_->drain() == Progress::kPending && !deadline.passed()) poll(false, deadline);
}

void ProbeConnection::finish() {
  socket_->queue(MessageType::kGoodbye);
  if (flush().ok()) waitForEof();
}

void ProbeConnection::sendFailure(const Status& why) {
  if (socket_->broken()) return;
  if (sendMessage(FailureMessage{why.code(), why.message()}).ok()) waitForEof();
}

Status ProbeConnection::rootCause(Status own) {
  const Deadline deadline = Deadline::in(kCloseTimeout / 2);
  while (!socket_->broken() && !deadline.passed()) {
    const size_t before = frames_.size();
    Status taken = take();
    if (!taken.ok() && !socket_->broken()) return taken;
    if (frames_.size() == before) poll(false, deadline);
  }
  return own;
}

}  // namespace bps
