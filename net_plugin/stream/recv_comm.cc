#include "net_plugin/stream/recv_comm.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "net_plugin/stream/send_comm.h"
#include "src/base/format.h"

namespace bps::plugin::stream {
namespace {

// In the middle of a large slice, a sleep ends when this many bytes have arrived, not at every TCP
// segment.
constexpr size_t kWakeBytes = size_t{512} << 10;
// A peer closes all sockets of a connection at the same time. After one socket has ended, the
// connection fails if the other sockets receive no data for this time.
constexpr std::chrono::seconds kOtherSocketsTimeout{5};

}  // namespace

RecvComm::RecvComm(std::vector<UniqueFd> sockets, PeerTimeout peerTimeout)
    : SocketComm(std::move(sockets), peerTimeout), readers_(this->sockets()), wakeBytes_(this->sockets(), 1) {}

std::unique_ptr<SocketComm> RecvComm::reversed(std::vector<UniqueFd> sockets) const {
  return std::make_unique<SendComm>(std::move(sockets), peerTimeout());
}

Status RecvComm::checkSlice(const Slice& slice) {
  const bool inOrder = slice.number == requests().active() && slice.isWhole();
  if (sockets() == 1 && !inOrder)
    return failure(Code::kRemote, "from {}: the stream is corrupt: message {}, expected {}", peer(), slice.number,
                   requests().active());
  return {};
}

Result<Progress> RecvComm::assignDestination(SliceReader& reader) {
  const Slice& slice = reader.slice();
  BPS_TRY(checkSlice(slice));
  if (slice.number >= requests().end()) return Progress::kPending;
  const Request& request = requests().at(slice.number);
  if (slice.messageBytes > request.bytes)
    return failure(Code::kInvalidUsage, "{} sent a message of {} bytes into a receive of {} bytes", peer(),
                   slice.messageBytes, request.bytes);
  if (!messageTracker().begin(slice))
    return failure(Code::kRemote, "from {}: the stream is corrupt: the slices of message {} are inconsistent", peer(),
                   slice.number);
  reader.setDestination(request.data + slice.offset);
  return Progress::kDone;
}

Status RecvComm::consumeReadAhead(SliceReader& reader) {
  while (!requests().idle()) {
    if (!reader.hasSlice()) {
      Result<Progress> taken = reader.takeFrame(requests().active());
      if (!taken.ok()) return std::move(taken).status().within("from " + peer());
      if (std::move(taken).value() == Progress::kPending) return {};
    }
    if (reader.needsDestination() && BPS_TRY(assignDestination(reader)) == Progress::kPending) return {};
    const Slice slice = reader.slice();
    if (reader.consumeReadAhead() == Progress::kPending) return {};
    messageTracker().finish(slice);
    finishCompleteMessages();
  }
  return {};
}

Status RecvComm::flush() {
  for (size_t i = 0; i < sockets(); ++i) {
    if (readers_[i].isBetweenSlices()) continue;
    onDataReceived(i);
    BPS_TRY(consumeReadAhead(readers_[i]));
  }
  return {};
}

Interest::Event RecvComm::prepareSleep(size_t index) {
  const SliceReader& reader = readers_[index];
  allDrained_ = false;
  if (!canRead(reader)) return Interest::Event::kNothing;
  const size_t wanted = std::clamp<size_t>(reader.rest(), 1, kWakeBytes);
  if (wanted == wakeBytes_[index]) return Interest::Event::kReading;
  const int lowWater = static_cast<int>(wanted);
  if (::setsockopt(socket(index), SOL_SOCKET, SO_RCVLOWAT, &lowWater, sizeof lowWater) == 0) wakeBytes_[index] = wanted;
  return Interest::Event::kReading;
}

Status RecvComm::onHangup(size_t index) {
  if (!readers_[index].ended()) BPS_TRY(onSocketEnd(index));
  return checkClosedSockets();
}

// Called when the peer has closed a socket. If the socket ends in the middle of a slice, the
// connection fails.
Status RecvComm::onSocketEnd(size_t index) {
  SliceReader& reader = readers_[index];
  reader.end();
  ++closedSockets_;
  otherSocketsDeadline_ = Deadline::in(kOtherSocketsTimeout);
  if (reader.isBetweenSlices()) return {};
  const uint64_t number = reader.hasSlice() ? reader.slice().number : requests().active();
  return peerClosed().within(fmt::format("in the middle of message {}", number));
}

// Fails if the peer has closed a socket and the messages in flight can no longer complete over the
// other sockets.
Status RecvComm::checkClosedSockets() {
  if (closedSockets_ == 0) return {};
  const bool all =
      std::none_of(readers_.begin(), readers_.end(), [&](const SliceReader& reader) { return canRead(reader); });
  const bool unclaimed =
      std::any_of(readers_.begin(), readers_.end(), [](const SliceReader& i) { return !i.isBetweenSlices(); });
  if (requests().idle() ? closedSockets_ < sockets() || unclaimed : !all && !otherSocketsDeadline_.passed()) return {};
  if (!messageTracker().hasStarted(requests().active())) return peerClosed();
  return peerClosed().within(fmt::format("in the middle of message {}", requests().active()));
}

Result<bool> RecvComm::readSome(size_t index, size_t& moved) {
  SliceReader& reader = readers_[index];
  if (!canRead(reader)) return false;
  const SliceReader::Read read = reader.read(socket(index), kMaxBytesPerCall - moved);
  if (read.error != 0) return socketError(read.error);
  if (reader.ended()) {
    BPS_TRY(onSocketEnd(index));
    return false;
  }
  if (read.bytes == 0) return false;
  onDataReceived(index);
  if (closedSockets_ > 0) otherSocketsDeadline_ = Deadline::in(kOtherSocketsTimeout);
  moved += read.bytes;
  BPS_TRY(consumeReadAhead(reader));
  return read.full;
}

// Reads a socket until it is empty, and then reads the next socket.
Status RecvComm::readAll() {
  setHasMoreToMove(false);
  size_t moved = 0, dry = 0;
  while (dry < sockets() && !requests().idle()) {
    if (moved >= kMaxBytesPerCall) {
      setHasMoreToMove(true);
      return {};
    }
    if (BPS_TRY(readSome(next_, moved))) {
      dry = 0;
      continue;
    }
    next_ = (next_ + 1) % sockets();
    ++dry;
  }
  allDrained_ = dry == sockets() && requests().hasDone() && !requests().idle();
  return {};
}

Status RecvComm::progress() {
  countPoll();
  if (std::exchange(allDrained_, false)) return {};
  BPS_TRY(flush());
  BPS_TRY(readAll());
  BPS_TRY(checkAcks());
  return requests().idle() ? Status() : checkClosedSockets();
}

}  // namespace bps::plugin::stream
