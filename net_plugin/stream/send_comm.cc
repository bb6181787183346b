#include "net_plugin/stream/send_comm.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "net_plugin/stream/recv_comm.h"
#include "src/base/format.h"

namespace bps::plugin::stream {
namespace {

// Limits of the size of a slice. Smaller slices cost more system calls, and larger slices balance
// the sockets less well (docs/transport.md).
constexpr size_t kMinSliceBytes = size_t{64} << 10, kMaxSliceBytes = size_t{1024} << 10;
// A message is divided into this many slices per socket. With two slices, a faster socket can take
// the second slice of a slower socket.
constexpr size_t kSlicesPerSocket = 2;

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

// Copies small pieces into one buffer, because the copy costs less than a sendmsg with several
// pieces.
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

// The reverse Comm has duplicates of the descriptors. Closing only the descriptors of this Comm
// would not tell the peer that the data ends, so the destructor shuts down the sending direction.
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
    if (!slice.isWhole()) return;  // leaves the next slice to another socket
    at.advance(slice);
  }
}

// A slice of which this socket has sent nothing stays unassigned. Any socket may take it next.
void SendComm::commitSent(SliceWriter& writer, size_t sent) {
  while (sent > 0) {
    if (!writer.busy) {
      writer.slice = sliceAt(cursor_);
      writer.sent = 0;
      writer.busy = true;
      cursor_.advance(writer.slice);
      if (!messageTracker().begin(writer.slice)) return;  // never happens, because sliceAt() returns consistent slices
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
    writer.full = true;  // set even if a signal interrupted the call; the next call tries again
    return size_t{0};
  }
  commitSent(writer, static_cast<size_t>(sent));
  writer.full = static_cast<size_t>(sent) < batch.bytes;
  return static_cast<size_t>(sent);
}

// Visits the sockets in round-robin order, so sockets that can send differ by at most one batch.
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

// Does not try full sockets again, because the sleep ends when a full socket becomes writable.
Status SendComm::flush() {
  Status outcome = sendAll();
  finishCompleteMessages();  // called even after a failure, because some messages may be sent completely
  return outcome;
}

Interest::Event SendComm::prepareSleep(size_t index) {
  return hasWork(writers_[index]) ? Interest::Event::kWriting : Interest::Event::kHangup;
}

}  // namespace bps::plugin::stream
