#include "net_plugin/tcp/recv_comm.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/format.h"

namespace bps::plugin::tcp {

Status RecvComm::takeFrame() {
  const std::span<const uint8_t> frame(ahead_.data() + aheadBegin_, kFrameBytes);
  Result<size_t> size = parseFrame(frame, requests().active());
  if (!size.ok()) return std::move(size).status().within("from " + peer());
  messageBytes_ = std::move(size).value();
  const size_t room = requests().front().bytes;
  if (messageBytes_ > room)
    return failure(Code::kInvalidUsage, "{} sent a message of {} bytes into a receive of {} bytes", peer(),
                   messageBytes_, room);
  aheadBegin_ += kFrameBytes;
  messageGot_ = 0;
  inMessage_ = true;
  return {};
}

Status RecvComm::takeAhead() {
  while (!requests().idle()) {
    if (!inMessage_) {
      if (aheadEnd_ - aheadBegin_ < kFrameBytes) return {};
      BPS_TRY(takeFrame());
    }
    const size_t part = std::min(messageBytes_ - messageGot_, aheadEnd_ - aheadBegin_);
    if (part > 0) std::memcpy(requests().front().data + messageGot_, ahead_.data() + aheadBegin_, part);
    messageGot_ += part;
    aheadBegin_ += part;
    if (messageGot_ < messageBytes_) return {};
    requests().finishFront(messageBytes_);
    inMessage_ = false;
  }
  return {};
}

Interest::For RecvComm::prepareSleep() {
  const size_t wanted = inMessage_ ? std::min(messageBytes_ - messageGot_, kWakeBytes) : 1;
  if (wanted == wakeBytes_) return Interest::For::kReading;
  const int lowWater = static_cast<int>(wanted);
  if (::setsockopt(socket(), SOL_SOCKET, SO_RCVLOWAT, &lowWater, sizeof lowWater) == 0) wakeBytes_ = wanted;
  return Interest::For::kReading;
}

Status RecvComm::endOfStream() const {
  if (!inMessage_ && aheadBegin_ == aheadEnd_) return peerClosed();
  return peerClosed().within(fmt::format("in the middle of message {}", requests().active()));
}

Result<RecvComm::Read> RecvComm::readSocket(size_t most) {
  std::memmove(ahead_.data(), ahead_.data() + aheadBegin_, aheadEnd_ - aheadBegin_);  // less than a frame
  aheadEnd_ -= aheadBegin_;
  aheadBegin_ = 0;
  const size_t rest = inMessage_ ? messageBytes_ - messageGot_ : 0;
  const size_t direct = std::min(rest, most);
  std::array<iovec, 2> pieces{};
  pieces[0] = {direct > 0 ? requests().front().data + messageGot_ : ahead_.data(), direct};
  pieces[1] = {ahead_.data() + aheadEnd_, direct < rest ? 0 : kAheadBytes - aheadEnd_};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const ssize_t received = ::recvmsg(socket(), &message, MSG_DONTWAIT);
  if (received == 0) return endOfStream();
  if (received < 0) {
    if (errno == EAGAIN || errno == EINTR) return Read{};
    return socketFailed(errno);
  }
  sawData();
  const auto got = static_cast<size_t>(received);
  messageGot_ += std::min(got, direct);
  aheadEnd_ += got - std::min(got, direct);
  return Read{got, got == direct + pieces[1].iov_len};
}

Status RecvComm::progress() {
  setMore(false);
  BPS_TRY(takeAhead());
  for (size_t moved = 0; !requests().idle();) {
    if (moved >= kMostPerCall) {
      setMore(true);
      return {};
    }
    const Read read = BPS_TRY(readSocket(kMostPerCall - moved));
    moved += read.bytes;
    BPS_TRY(takeAhead());
    if (!read.full) return {};
  }
  return {};
}

}  // namespace bps::plugin::tcp
