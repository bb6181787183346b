#include "net_plugin/tcp/send_comm.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace bps::plugin::tcp {

void SendComm::Batch::add(void* data, size_t length) {
  if (length == 0) return;
  pieces[count++] = {data, length};
  bytes += length;
}

void SendComm::fill(Batch& batch, size_t most) {
  const uint64_t end = std::min(requests().end(), requests().active() + Batch::kMessages);
  size_t skip = frontSent_;
  for (uint64_t i = requests().active(); i < end && batch.bytes < most; ++i) {
    const Request& request = requests().at(i);
    FrameBytes& frame = batch.frames[i - requests().active()];
    frame = encodeFrame(request.bytes, i);
    const size_t frameSent = std::min(skip, kFrameBytes), dataSent = skip - frameSent;
    batch.add(frame.data() + frameSent, kFrameBytes - frameSent);
    batch.add(request.data + dataSent, std::min(request.bytes - dataSent, most));
    skip = 0;
  }
}

void SendComm::advance(size_t sent) {
  frontSent_ += sent;
  while (!requests().idle() && frontSent_ >= kFrameBytes + requests().front().bytes) {
    const size_t bytes = requests().front().bytes;
    frontSent_ -= kFrameBytes + bytes;
    requests().finishFront(bytes);
  }
}

Status SendComm::progress() {
  size_t moved = 0;
  full_ = false;
  setMore(false);
  while (!requests().idle()) {
    if (moved >= kMostPerCall) {
      setMore(true);
      return {};
    }
    Batch batch;
    fill(batch, kMostPerCall - moved);
    msghdr message{};
    message.msg_iov = batch.pieces.data();
    message.msg_iovlen = batch.count;
    const ssize_t sent = ::sendmsg(socket(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      full_ = errno == EAGAIN;
      if (full_ || errno == EINTR) return {};
      return errno == EPIPE ? peerClosed() : socketFailed(errno);
    }
    moved += static_cast<size_t>(sent);
    advance(static_cast<size_t>(sent));
    full_ = static_cast<size_t>(sent) < batch.bytes;
    if (full_) return {};
  }
  return {};
}

}  // namespace bps::plugin::tcp
