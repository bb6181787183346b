#include "tools/bps_topo/network/line.h"

#include <poll.h>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr std::chrono::milliseconds kFarewell(1000);

}  // namespace

bool ProbeLine::poll(bool write, Deadline deadline) const {
  pollfd wait{socket_->fd(), static_cast<short>(write ? POLLOUT : POLLIN), 0};
  return ::poll(&wait, 1, deadline.leftMs()) > 0;
}

Status ProbeLine::lost(const Status& why) const { return failure(Code::kRemote, "{}: {}", name_, why.message()); }

Status ProbeLine::unexpected(const Frame& frame) const {
  return failure(Code::kRemote, "{}: a message of type {} came where it was not due", name_,
                 static_cast<unsigned>(frame.header.type));
}

Status ProbeLine::flush() {
  const Deadline deadline = patience();
  while (true) {
    Result<Progress> progress = socket_->flush();
    if (!progress.ok()) return lost(progress.error());
    if (std::move(progress).value() == Progress::kDone) return {};
    if (deadline.passed()) return failure(Code::kRemote, "{} takes nothing any more", name_);
    poll(true, deadline);
  }
}

Status ProbeLine::take() {
  Result<std::optional<Frame>> read = socket_->read();
  if (!read.ok()) return lost(read.error());
  std::optional<Frame> frame = std::move(read).value();
  if (!frame) return {};
  if (frame->header.type == MessageType::kFailure) {
    const FailureMessage said = BPS_TRY(decode<FailureMessage>(frame->payload));
    return failure(said.code, "{} says: {}", name_, said.text);
  }
  if (frame->header.type == MessageType::kRefusal) {
    const Refusal said = BPS_TRY(decode<Refusal>(frame->payload));
    busy_ = said.kind == Refusal::Kind::kBusy;
    return failure(said.code, "{}: {}", name_, said.text);
  }
  frames_.push_back(std::move(*frame));
  return {};
}

Result<Frame> ProbeLine::next() {
  const Deadline deadline = patience();
  while (frames_.empty()) {
    BPS_TRY(take());
    if (!frames_.empty()) break;
    if (deadline.passed()) return failure(Code::kRemote, "{} has said nothing for {} ms", name_, patience_.count());
    poll(false, deadline);
  }
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

Status ProbeLine::look() { return take(); }

void ProbeLine::awaitEnd() {
  socket_->shutdownWrite();
  const Deadline deadline = Deadline::in(kFarewell);
  while (socket_->drain() == Progress::kPending && !deadline.passed()) poll(false, deadline);
}

void ProbeLine::finish() {
  socket_->queue(MessageType::kGoodbye);
  if (flush().ok()) awaitEnd();
}

void ProbeLine::giveUp(const Status& why) {
  if (socket_->broken()) return;
  if (say(FailureMessage{why.code(), why.message()}).ok()) awaitEnd();
}

Status ProbeLine::verdict(Status own) {
  const Deadline deadline = Deadline::in(kFarewell / 2);
  while (!socket_->broken() && !deadline.passed()) {
    const size_t before = frames_.size();
    Status taken = take();
    if (!taken.ok() && !socket_->broken()) return taken;
    if (frames_.size() == before) poll(false, deadline);
  }
  return own;
}

}  // namespace bps
