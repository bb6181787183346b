#include "src/control/link/control_socket.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <limits>

#include "src/base/format.h"
#include "src/base/io/socket.h"

namespace bps {
namespace {

constexpr size_t kReadsPerDrain = 64;  // limits one drain(), so that a flood of input does not block the event loop
constexpr uint64_t kLastFrame = std::numeric_limits<uint32_t>::max();

std::string peerText(int fd) {
  Result<Address> address = peerAddress(fd);
  return address.ok() ? std::move(address).value().text() : "an unknown address";
}

bool wouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

ControlSocket::ControlSocket(UniqueFd fd, uint32_t first)
    : fd_(std::move(fd)), peer_(peerText(fd_.get())), sent_(first), received_(first) {}

void ControlSocket::seal(const SessionKeys& keys, HandshakeSide mine) {
  seal_.emplace(keys, mine);
  reader_.setLimit(kMaxFrameBytes + kFrameTagBytes);
  reader_.expectTags([this](Seal::TaggedHeader header) {
    if (received_ > kLastFrame) return sequenceExhausted();
    return seal_->isAuthenticHeader(static_cast<uint32_t>(received_), header) ? Status() : forged();
  });
}

void ControlSocket::queue(MessageType type, const Blob& payload) {
  if (sent_ > kLastFrame) {
    [[maybe_unused]] const Status ended = sequenceExhausted();
    ::shutdown(fd_.get(), SHUT_RDWR);  // wakes both ends
    return;
  }
  FrameHeader header;
  header.bytes = static_cast<uint32_t>(payload.size());
  header.type = type;
  header.job = job_;
  header.sequence = static_cast<uint32_t>(sent_++);
  if (seal_) return seal_->seal(header, payload, out_);
  const auto bytes = encode(header);
  transcript_.add(bytes, payload);
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
    Result<std::optional<Frame>> taken = take(static_cast<size_t>(count));
    if (!taken.ok() && end_ == End::kNone) end_ = End::kProtocol;
    std::optional<Frame> frame = BPS_TRY(std::move(taken));
    if (frame) return frame;
  }
}

Result<std::optional<Frame>> ControlSocket::take(size_t count) {
  std::optional<Frame> frame = BPS_TRY(reader_.filled(count));
  if (frame) BPS_TRY(accept(*frame));
  return frame;
}

Status ControlSocket::lost(int error) {
  if (sent_ > kLastFrame) return sequenceExhausted();
  end_ = End::kBroken;
  if (error == 0) return {Code::kRemote, "connection closed"};
  return systemFailure("connection lost", error);
}

Status ControlSocket::forged() {
  end_ = End::kForged;
  return failure(Code::kRemote,
                 "frame {} from {} is not authentic: something between the two changes or injects messages", received_,
                 peer_);
}

Status ControlSocket::sequenceExhausted() {
  end_ = End::kBroken;
  return {Code::kRemote, "this connection has carried 2^32 frames, its limit"};
}

Status ControlSocket::accept(Frame& frame) {
  if (seal_ && !seal_->open(static_cast<uint32_t>(received_), frame)) return forged();
  if (!seal_) transcript_.add(encode(frame.header), frame.payload);
  return check(frame.header);
}

Status ControlSocket::check(const FrameHeader& header) {
  if (received_ > kLastFrame) return sequenceExhausted();
  if (header.sequence != received_++)
    return failure(Code::kRemote, "received frame {} instead of {}", header.sequence, received_ - 1);
  // Hello and Refusal frames are accepted in any protocol version, so that the two sides can compare their versions.
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
  for (size_t turn = 0; turn < kReadsPerDrain; ++turn) {
    const ssize_t count = ::recv(fd_.get(), waste.data(), waste.size(), 0);
    if (count < 0 && wouldBlock(errno)) return Progress::kPending;
    if (count <= 0) return Progress::kDone;
  }
  return Progress::kPending;
}

}  // namespace bps
