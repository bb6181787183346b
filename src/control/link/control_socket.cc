#include "src/control/link/control_socket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "src/base/format.h"
#include "src/base/socket.h"

namespace bps {
namespace {

constexpr size_t kTurns = 64;  // reads in one drain(): a flood may not hold the loop

std::string peerText(int fd) {
  Result<Address> address = peerAddress(fd);
  return address.ok() ? std::move(address).value().text() : "an unknown address";
}

bool wouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

ControlSocket::ControlSocket(UniqueFd fd) : fd_(std::move(fd)), peer_(peerText(fd_.get())) {}

void ControlSocket::queue(MessageType type, const Blob& payload) {
  FrameHeader header;
  header.bytes = static_cast<uint32_t>(payload.size());
  header.type = type;
  header.job = job_;
  header.sequence = sent_++;
  const auto bytes = encode(header);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  out_.insert(out_.end(), payload.begin(), payload.end());
}

Result<Progress> ControlSocket::flush() {
  while (wantsWrite()) {
    const ssize_t count = ::send(fd_.get(), out_.data() + written_, out_.size() - written_, MSG_NOSIGNAL);
    if (count < 0 && wouldBlock(errno)) return Progress::kPending;
    if (count < 0) return lost(errno);
    written_ += static_cast<size_t>(count);
  }
  out_.clear();
  written_ = 0;
  return Progress::kDone;
}

Result<std::optional<Frame>> ControlSocket::read() {
  while (true) {
    const auto room = reader_.room();
    const ssize_t count = ::recv(fd_.get(), room.data(), room.size(), 0);
    if (count < 0 && wouldBlock(errno)) return std::optional<Frame>();
    if (count < 0) return lost(errno);
    if (count == 0) return lost(0);
    std::optional<Frame> frame = BPS_TRY(reader_.filled(static_cast<size_t>(count)));
    if (!frame) continue;
    BPS_TRY(check(frame->header));
    return frame;
  }
}

Status ControlSocket::lost(int error) {
  broken_ = true;
  if (error == 0) return {Code::kRemote, "connection closed"};
  return systemFailure("connection lost", error);
}

Status ControlSocket::check(const FrameHeader& header) {
  if (header.sequence != received_++)
    return failure(Code::kRemote, "frame {} came where {} was due", header.sequence, received_ - 1);
  // Hello and Refusal are read whatever their version: that is how two versions tell each other.
  if (header.type == MessageType::kHello || header.type == MessageType::kRefusal) return {};
  if (header.version != kControlVersion)
    return failure(Code::kRemote, "frame of protocol version {}, this side speaks {}; rebuild one side", header.version,
                   kControlVersion);
  if (job_ != 0 && header.job != job_) return Status(Code::kRemote, "frame of another job");
  return {};
}

void ControlSocket::shutdownWrite() { ::shutdown(fd_.get(), SHUT_WR); }

Progress ControlSocket::drain() {
  std::array<uint8_t, 4096> waste;
  for (size_t turn = 0; turn < kTurns; ++turn) {
    const ssize_t count = ::recv(fd_.get(), waste.data(), waste.size(), 0);
    if (count < 0 && wouldBlock(errno)) return Progress::kPending;
    if (count <= 0) return Progress::kDone;
  }
  return Progress::kPending;
}

}  // namespace bps
