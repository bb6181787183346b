#include "net_plugin/stream/recv_comm.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "net_plugin/stream/send_comm.h"
#include "src/base/format.h"

namespace bps::plugin::stream {
namespace {

// Inside a large slice the sleep ends when this much has come, not at every segment.
constexpr size_t kWakeBytes = size_t{512} << 10;
// A peer closes all sockets at once; what is under way on the others comes, or is never to come.
constexpr std::chrono::seconds kRestTime{5};

}  // namespace

RecvComm::RecvComm(std::vector<UniqueFd> sockets, Patience patience)
    : SocketComm(std::move(sockets), patience), inlets_(this->sockets()), wakeBytes_(this->sockets(), 1) {}

std::unique_ptr<SocketComm> RecvComm::reversed(std::vector<UniqueFd> sockets) const {
  return std::make_unique<SendComm>(std::move(sockets), patience());
}

Status RecvComm::checkSlice(const Slice& slice) {
  const bool inOrder = slice.number == requests().active() && slice.isWhole();
  if (sockets() == 1 && !inOrder)
    return failure(Code::kRemote, "from {}: the stream is corrupt: message {} where {} must be", peer(), slice.number,
                   requests().active());
  return {};
}

Result<Progress> RecvComm::placeSlice(Inlet& inlet) {
  const Slice& slice = inlet.slice();
  BPS_TRY(checkSlice(slice));
  if (slice.number >= requests().end()) return Progress::kPending;
  const Request& request = requests().at(slice.number);
  if (slice.messageBytes > request.bytes)
    return failure(Code::kInvalidUsage, "{} sent a message of {} bytes into a receive of {} bytes", peer(),
                   slice.messageBytes, request.bytes);
  if (!assembly().begin(slice))
    return failure(Code::kRemote, "from {}: the stream is corrupt: the slices of message {} do not fit together",
                   peer(), slice.number);
  inlet.place(request.data + slice.offset);
  return Progress::kDone;
}

Status RecvComm::takeAhead(Inlet& inlet) {
  while (!requests().idle()) {
    if (!inlet.hasSlice()) {
      Result<Progress> taken = inlet.takeFrame(requests().active());
      if (!taken.ok()) return std::move(taken).status().within("from " + peer());
      if (std::move(taken).value() == Progress::kPending) return {};
    }
    if (inlet.needsPlace() && BPS_TRY(placeSlice(inlet)) == Progress::kPending) return {};
    const Slice slice = inlet.slice();
    if (inlet.takeAhead() == Progress::kPending) return {};
    assembly().finish(slice);
    finishWhole();
  }
  return {};
}

Status RecvComm::flush() {
  for (size_t i = 0; i < sockets(); ++i) {
    if (inlets_[i].isAtBorder()) continue;
    sawData(i);
    BPS_TRY(takeAhead(inlets_[i]));
  }
  return {};
}

Interest::For RecvComm::prepareSleep(size_t index) {
  const Inlet& inlet = inlets_[index];
  dry_ = false;
  if (!canRead(inlet)) return Interest::For::kNothing;
  const size_t wanted = std::clamp<size_t>(inlet.rest(), 1, kWakeBytes);
  if (wanted == wakeBytes_[index]) return Interest::For::kReading;
  const int lowWater = static_cast<int>(wanted);
  if (::setsockopt(socket(index), SOL_SOCKET, SO_RCVLOWAT, &lowWater, sizeof lowWater) == 0) wakeBytes_[index] = wanted;
  return Interest::For::kReading;
}

Status RecvComm::hungUp(size_t index) {
  if (!inlets_[index].ended()) BPS_TRY(endOf(index));
  return checkEnds();
}

// The peer has closed a socket. Between two slices that is how it ends a connection.
Status RecvComm::endOf(size_t index) {
  Inlet& inlet = inlets_[index];
  inlet.end();
  ++ends_;
  restIn_ = Deadline::in(kRestTime);
  if (inlet.isAtBorder()) return {};
  const uint64_t number = inlet.hasSlice() ? inlet.slice().number : requests().active();
  return peerClosed().within(fmt::format("in the middle of message {}", number));
}

// After the end of a socket: whether the messages under way can still become whole by what the others bring.
Status RecvComm::checkEnds() {
  if (ends_ == 0) return {};
  const bool all = std::none_of(inlets_.begin(), inlets_.end(), [&](const Inlet& inlet) { return canRead(inlet); });
  const bool unclaimed = std::any_of(inlets_.begin(), inlets_.end(), [](const Inlet& i) { return !i.isAtBorder(); });
  if (requests().idle() ? ends_ < sockets() || unclaimed : !all && !restIn_.passed()) return {};
  if (!assembly().begun(requests().active())) return peerClosed();
  return peerClosed().within(fmt::format("in the middle of message {}", requests().active()));
}

Result<bool> RecvComm::readSome(size_t index, size_t& moved) {
  Inlet& inlet = inlets_[index];
  if (!canRead(inlet)) return false;
  const Inlet::Read read = inlet.read(socket(index), kMostPerCall - moved);
  if (read.error != 0) return socketFailed(read.error);
  if (inlet.ended()) {
    BPS_TRY(endOf(index));
    return false;
  }
  if (read.bytes == 0) return false;
  sawData(index);
  if (ends_ > 0) restIn_ = Deadline::in(kRestTime);
  moved += read.bytes;
  BPS_TRY(takeAhead(inlet));
  return read.full;
}

// Each socket as long as it has something, the others after it.
Status RecvComm::readAll() {
  setMore(false);
  size_t moved = 0, dry = 0;
  while (dry < sockets() && !requests().idle()) {
    if (moved >= kMostPerCall) {
      setMore(true);
      return {};
    }
    if (BPS_TRY(readSome(next_, moved))) {
      dry = 0;
      continue;
    }
    next_ = (next_ + 1) % sockets();
    ++dry;
  }
  dry_ = dry == sockets() && requests().hasDone() && !requests().idle();
  return {};
}

Status RecvComm::progress() {
  notePoll();
  if (std::exchange(dry_, false)) return {};
  BPS_TRY(flush());
  BPS_TRY(readAll());
  BPS_TRY(checkAcks());
  return requests().idle() ? Status() : checkEnds();
}

}  // namespace bps::plugin::stream
