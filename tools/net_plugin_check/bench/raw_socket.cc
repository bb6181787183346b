#include "tools/net_plugin_check/bench/raw_socket.h"

#include <algorithm>
#include <cerrno>

#include "src/base/socket.h"

namespace bps::check {
namespace {

constexpr size_t kMostPerTurn = size_t{1} << 20;  // as our plugin: then the other direction

Result<Address> addressOfDevice(Side& side) {
  DeviceProperties properties;
  BPS_TRY(side.expect(side.table().getProperties(std::max(side.device(), 0), 0, properties), Call::kGetProperties));
  Result<std::vector<Interface>> found = selectInterfaces("=" + properties.name);
  if (!found.ok())
    return failure(Code::kSystem, "device {} is no network interface: no plain sockets to compare with",
                   properties.name);
  Address address = std::move(found).value().front().address;
  address.setPort(0);
  return address;
}

Status waitFor(Side& side, int fd, short events) {
  pollfd state{.fd = fd, .events = events, .revents = 0};
  const Deadline deadline = side.patience();
  while (::poll(&state, 1, deadline.leftMs()) <= 0)
    if (deadline.passed()) return {Code::kTimeout, "the plain sockets are not connected"};
  return {};
}

Result<UniqueFd> dial(Side& side, const Address& address) {
  UniqueFd socket = BPS_TRY(startConnect(address));
  BPS_TRY(waitFor(side, socket.get(), POLLOUT));
  BPS_TRY(connectResult(socket.get(), address));
  return socket;
}

}  // namespace

Result<std::vector<UniqueFd>> rawSockets(Side& side, size_t count) {
  std::vector<UniqueFd> sockets;
  if (side.sends()) {
    const Blob told = BPS_TRY(side.hear());
    sockaddr_storage storage{};
    std::memcpy(&storage, told.data(), std::min(told.size(), sizeof storage));
    const Address address(reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(told.size()));
    for (size_t i = 0; i < count; ++i) sockets.push_back(BPS_TRY(dial(side, address)));
    return sockets;
  }
  const Address own = BPS_TRY(addressOfDevice(side));
  const UniqueFd listener = BPS_TRY(listenOn(own));
  const Address address = BPS_TRY(localAddress(listener.get()));
  const auto* bytes = reinterpret_cast<const uint8_t*>(address.data());
  BPS_TRY(side.tell({bytes, address.length()}));
  while (sockets.size() < count) {
    BPS_TRY(waitFor(side, listener.get(), POLLIN));
    std::optional<UniqueFd> socket = BPS_TRY(bps::acceptFrom(listener.get()));
    if (socket) sockets.push_back(std::move(*socket));
  }
  return sockets;
}

RawStream::RawStream(std::span<const UniqueFd> sockets, bool sends, std::span<uint8_t> memory, size_t piece)
    : sends_(sends), piece_(piece / sockets.size()) {
  const size_t each = memory.size() / piece * piece_;
  for (size_t i = 0; i < sockets.size(); ++i)
    lanes_.push_back({.fd = sockets[i].get(), .memory = memory.subspan(i * each, each)});
}

void RawStream::start(size_t bytes) {
  for (Lane& lane : lanes_) lane.left = bytes / lanes_.size(), lane.at = 0;
}

bool RawStream::done() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.left == 0; });
}

// One call for the rest of the piece, or what may be moved in a turn.
Result<bool> RawStream::moveSome(Lane& lane) const {
  const size_t most = std::min({lane.left, piece_ - lane.at % piece_, kMostPerTurn});
  const ssize_t moved = sends_ ? ::send(lane.fd, lane.memory.data() + lane.at, most, MSG_DONTWAIT | MSG_NOSIGNAL)
                               : ::recv(lane.fd, lane.memory.data() + lane.at, most, MSG_DONTWAIT);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (moved <= 0) return Status(Code::kRemote, "the plain connection has ended");
  lane.left -= static_cast<size_t>(moved);
  lane.at = (lane.at + static_cast<size_t>(moved)) % lane.memory.size();
  return true;
}

Result<bool> RawStream::step() {
  bool moved = false;
  for (Lane& lane : lanes_)
    if (lane.left > 0) moved = BPS_TRY(moveSome(lane)) || moved;
  return moved;
}

void RawStream::addTo(std::vector<pollfd>& sleepers) const {
  for (const Lane& lane : lanes_)
    if (lane.left > 0)
      sleepers.push_back({.fd = lane.fd, .events = static_cast<short>(sends_ ? POLLOUT : POLLIN), .revents = 0});
}

Status driveRaw(Side& side, std::span<RawStream* const> streams) {
  std::vector<pollfd> sleepers;
  while (true) {
    bool moved = false, done = true;
    for (RawStream* stream : streams) {
      moved = BPS_TRY(stream->step()) || moved;
      done = done && stream->done();
    }
    if (done) return {};
    if (moved) continue;
    sleepers.clear();
    for (const RawStream* stream : streams) stream->addTo(sleepers);
    const int wait = static_cast<int>(side.options().timeoutSeconds * 1000);
    if (::poll(sleepers.data(), sleepers.size(), wait) == 0) return {Code::kTimeout, "the plain sockets stand still"};
  }
}

}  // namespace bps::check
