#include "net_plugin/stream/send_comm.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "net_plugin/stream/recv_comm.h"
#include "src/base/format.h"

namespace bps::plugin::stream {
namespace {

// Measured in docs/transport.md: smaller ones cost system calls, larger ones leave the last socket alone for longer.
constexpr size_t kMinSliceBytes = size_t{64} << 10, kMaxSliceBytes = size_t{1024} << 10;
constexpr size_t kSlicesPerSocket =
    2;  // of each socket in a message, so that a slow one can leave its second to others

}  // namespace

size_t sliceBytesOf(size_t messageBytes, size_t sockets) {
  if (sockets == 1 || messageBytes <= kMinSliceBytes) return messageBytes;
  return std::clamp(messageBytes / (kSlicesPerSocket * sockets), kMinSliceBytes, kMaxSliceBytes);
}

void SendComm::Cursor::advance(const Slice& slice) {
  offset += slice.bytes;
  if (offset < slice.messageBytes) return;
  ++number;
  offset = 0;
}

void SendComm::Batch::addPiece(void* data, size_t length) {
  if (length == 0) return;
  pieces[pieceCount++] = {data, length};
  bytes += length;
}

void SendComm::Batch::add(const Slice& slice, uint8_t* message, size_t skip, size_t most) {
  FrameBytes& frame = frames[count++];
  frame = encodeFrame(slice);
  const size_t frameBytes = frameBytesOf(slice);
  const size_t frameSent = std::min(skip, frameBytes), dataSent = skip - frameSent;
  addPiece(frame.data() + frameSent, frameBytes - frameSent);
  addPiece(message + slice.offset + dataSent, std::min(slice.bytes - dataSent, most));
}

// A few small pieces are copied together: to copy them costs less than to have the kernel look for them.
ssize_t SendComm::Batch::sendOn(int socket) {
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  if (bytes <= kMaxCopiedBytes) {
    std::array<uint8_t, kMaxCopiedBytes> together;
    uint8_t* end = together.data();
    for (size_t i = 0; i < pieceCount; ++i)
      end = std::copy_n(static_cast<const uint8_t*>(pieces[i].iov_base), pieces[i].iov_len, end);
    return ::send(socket, together.data(), bytes, kFlags);
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieceCount;
  return ::sendmsg(socket, &message, kFlags);
}

SendComm::SendComm(std::vector<UniqueFd> sockets, PeerTimeout peerTimeout)
    : SocketComm(std::move(sockets), peerTimeout), writers_(this->sockets()) {}

// The descriptors of the other direction would keep the peer waiting for more.
SendComm::~SendComm() {
  for (size_t i = 0; hasReverse() && i < sockets(); ++i) ::shutdown(socket(i), SHUT_WR);
}

std::unique_ptr<SocketComm> SendComm::reversed(std::vector<UniqueFd> sockets) const {
  return std::make_unique<RecvComm>(std::move(sockets), peerTimeout());
}

Slice SendComm::sliceAt(const Cursor& at) {
  const size_t bytes = requests().at(at.number).bytes;
  return {.number = at.number,
          .messageBytes = bytes,
          .offset = at.offset,
          .bytes = std::min(bytes - at.offset, sliceBytesOf(bytes, sockets()))};
}

void SendComm::fill(Batch& batch, const SliceWriter& writer, size_t most) {
  if (writer.busy) batch.add(writer.slice, requests().at(writer.slice.number).data, writer.sent, most);
  for (Cursor at = cursor_; at.number < requests().end() && batch.count < Batch::kSlices && batch.bytes < most;) {
    const Slice slice = sliceAt(at);
    batch.add(slice, requests().at(slice.number).data, 0, most);
    if (!slice.isWhole()) return;  // the next one is another socket's
    at.advance(slice);
  }
}

// What was not sent of the slices that this socket had not begun stays for whichever socket is next.
void SendComm::commitSent(SliceWriter& writer, size_t sent) {
  while (sent > 0) {
    if (!writer.busy) {
      writer.slice = sliceAt(cursor_);
      writer.sent = 0;
      writer.busy = true;
      cursor_.advance(writer.slice);
      if (!messageTracker().begin(writer.slice)) return;  // cannot be: we cut it
    }
    const size_t all = frameBytesOf(writer.slice) + writer.slice.bytes, part = std::min(sent, all - writer.sent);
    writer.sent += part;
    sent -= part;
    if (writer.sent < all) return;
    writer.busy = false;
    messageTracker().finish(writer.slice);
  }
}

Result<size_t> SendComm::sendSome(size_t index, size_t most) {
  SliceWriter& writer = writers_[index];
  Batch batch;
  fill(batch, writer, most);
  const ssize_t sent = batch.sendOn(socket(index));
  if (sent < 0) {
    if (errno != EAGAIN && errno != EINTR) return errno == EPIPE ? peerClosed() : socketError(errno);
    writer.full = true;  // or interrupted: the next call tries again
    return size_t{0};
  }
  commitSent(writer, static_cast<size_t>(sent));
  writer.full = static_cast<size_t>(sent) < batch.bytes;
  return static_cast<size_t>(sent);
}

// The sockets in turn, so that none gets more than a slice ahead of another that can send as well.
Status SendComm::sendAll() {
  setHasMoreToMove(false);
  size_t moved = 0;
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < writers_.size(); ++i) {
      if (writers_[i].full || !hasWork(writers_[i])) continue;
      if (moved >= kMaxBytesPerCall) {
        setHasMoreToMove(true);
        return {};
      }
      moved += BPS_TRY(sendSome(i, kMaxBytesPerCall - moved));
      any = true;
    }
  }
  return {};
}

Status SendComm::progress() {
  for (SliceWriter& writer : writers_) writer.full = false;
  BPS_TRY(flush());
  return checkAcks();
}

// A socket that was full is not asked again: the sleep ends when it takes more.
Status SendComm::flush() {
  Status outcome = sendAll();
  finishCompleteMessages();  // after a failure too: what was sent whole before it was sent
  return outcome;
}

Interest::Event SendComm::prepareSleep(size_t index) {
  return hasWork(writers_[index]) ? Interest::Event::kWriting : Interest::Event::kHangup;
}

}  // namespace bps::plugin::stream
