#include "net_plugin/stream/slice_reader.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace bps::plugin::stream {
namespace {

// Uses recv() instead of recvmsg() if only the read-ahead buffer receives bytes, because recv() is
// cheaper.
ssize_t receive(int socket, std::array<iovec, 2>& pieces, size_t direct) {
  if (direct == 0) return ::recv(socket, pieces[1].iov_base, pieces[1].iov_len, MSG_DONTWAIT);
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return ::recvmsg(socket, &message, MSG_DONTWAIT);
}

}  // namespace

Result<Progress> SliceReader::takeFrame(uint64_t next) {
  const std::span<const uint8_t> ahead(readAhead_.get() + begin_, end_ - begin_);
  if (ahead.size() < kFrameBytes) return Progress::kPending;
  const size_t bytes = BPS_TRY(frameBytesOf(ahead));
  if (ahead.size() < bytes) return Progress::kPending;
  slice_ = BPS_TRY(parseFrame(ahead.first(bytes), next));
  begin_ += bytes;
  if (slice_.bytes > kSmallReadAheadBytes) lastSliceWasLarge_ = slice_.bytes >= kReadAheadBytes;
  state_ = State::kNoDestination;
  got_ = 0;
  return Progress::kDone;
}

void SliceReader::setDestination(uint8_t* at) {
  destination_ = at;
  state_ = State::kHasDestination;
}

Progress SliceReader::consumeReadAhead() {
  const size_t part = std::min(rest(), end_ - begin_);
  if (part > 0) std::memcpy(destination_ + got_, readAhead_.get() + begin_, part);
  got_ += part;
  begin_ += part;
  if (rest() > 0) return Progress::kPending;
  state_ = State::kBetweenSlices;
  return Progress::kDone;
}

// Returns how many bytes to read ahead after `direct` bytes of the slice. A large slice is usually
// followed by a small message and another large slice. After a large slice, the reader therefore
// reads ahead only enough for two frames and a small message. Reading more would copy bytes of the
// next large slice twice.
size_t SliceReader::room(size_t direct) const {
  if (direct < rest()) return 0;
  const bool little = direct >= kReadAheadBytes || (direct == 0 && lastSliceWasLarge_);
  return (little ? kSmallReadAheadBytes : kReadAheadBytes) - end_;
}

SliceReader::Read SliceReader::read(int socket, size_t most) {
  std::memmove(readAhead_.get(), readAhead_.get() + begin_, end_ - begin_);  // moves less than one frame
  end_ -= begin_;
  begin_ = 0;
  const size_t direct = std::min(rest(), most);
  std::array<iovec, 2> pieces{};
  pieces[0] = {direct > 0 ? destination_ + got_ : readAhead_.get(), direct};
  pieces[1] = {readAhead_.get() + end_, room(direct)};
  const ssize_t received = receive(socket, pieces, direct);
  if (received < 0) return {.error = errno == EAGAIN || errno == EINTR ? 0 : errno};
  ended_ = received == 0;
  const auto got = static_cast<size_t>(received);
  got_ += std::min(got, direct);
  end_ += got - std::min(got, direct);
  return {.bytes = got, .full = got == direct + pieces[1].iov_len};
}

}  // namespace bps::plugin::stream
