#include "net_plugin/shm/shm_listener.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "net_plugin/log.h"
#include "src/base/format.h"
#include "src/base/io/wire_io.h"

namespace bps::plugin::shm {
namespace {

constexpr uint32_t kHelloMagic = 0x4d737062;  // "bpsM"
// The limit can be short, because a peer sends its hello as soon as it is connected.
constexpr std::chrono::seconds kHelloTimeout{5};

std::string socketNameOf(uint64_t socketId) { return fmt::format("bps-net-{:016x}", socketId); }

}  // namespace

HelloBytes encodeHello(const Token& token) {
  WireWriter writer;
  writer.put(kHelloMagic).put(kVersion).put(uint16_t{0});
  writer.putRaw(token);
  return writer.padded<std::tuple_size_v<HelloBytes>>();
}

Status checkHello(std::span<const uint8_t> bytes, const Token& token) {
  WireReader reader(bytes);
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  reader.get<uint16_t>();
  unsigned different = 0;
  for (const uint8_t byte : token) different |= static_cast<unsigned>(reader.get<uint8_t>() ^ byte);
  if (reader.truncated() || magic != kHelloMagic) return {Code::kRemote, "the peer is not a bps net plugin"};
  if (version != kVersion)
    return failure(Code::kRemote,
                   "the peer's shared memory has version {}, this side's {}: use the same bps on both sides", version,
                   kVersion);
  if (different != 0) return {Code::kRemote, "the peer does not have this listener's handle"};
  return {};
}

Result<std::unique_ptr<ShmListener>> ShmListener::create(const Token& token) {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
    return systemFailure("getrandom", errno);
  UniqueFd socket = BPS_TRY(listenUnix(socketNameOf(number)));
  return std::unique_ptr<ShmListener>(new ShmListener(std::move(socket), number, token));
}

Result<std::unique_ptr<RecvComm>> ShmListener::readHello(PendingSocket& pending) const {
  if (!isSameUser(pending.socket.get())) return Status(Code::kRemote, "it belongs to another user");
  HelloBytes hello{};
  FdMessage received = BPS_TRY(receiveWithFds(pending.socket.get(), hello));
  if (received.bytes == 0) {
    if (pending.deadline.passed()) return Status(Code::kRemote, "it sent no hello in time");
    return std::unique_ptr<RecvComm>();
  }
  BPS_TRY(checkHello(std::span(hello).first(received.bytes), token_));
  if (received.fds.size() != 1) return Status(Code::kRemote, "it sent no shared memory");
  Segment segment = BPS_TRY(Segment::map(received.fds.front().get()));
  return std::make_unique<RecvComm>(std::move(segment), std::move(pending.socket));
}

void ShmListener::reject(const PendingSocket& pending, const Status& why) {
  if (++rejectedCount_ <= kMaxLoggedRejections)
    logInfo("@{}: rejected {}: {}", socketNameOf(socketId_), peerName(pending.socket.get()), why.message());
}

// Accepts at most kMaxPendingSockets sockets per call. If that many accepted peers have not sent
// their hello, a new peer displaces the oldest of them.
Result<std::unique_ptr<RecvComm>> ShmListener::accept() {
  for (size_t i = 0; i < kMaxPendingSockets; ++i) {
    UniqueFd socket = BPS_TRY(acceptUnix(socket_.get()));
    if (!socket) break;
    if (pendingSockets_.size() == kMaxPendingSockets) {
      reject(pendingSockets_.front(), Status(Code::kRemote, "too many peers that have sent no hello"));
      pendingSockets_.erase(pendingSockets_.begin());
    }
    pendingSockets_.push_back({std::move(socket), Deadline::in(kHelloTimeout)});
  }
  for (size_t i = 0; i < pendingSockets_.size();) {
    Result<std::unique_ptr<RecvComm>> received = readHello(pendingSockets_[i]);
    if (received.ok()) {
      std::unique_ptr<RecvComm> comm = std::move(received).value();
      if (comm) return comm;
      ++i;
      continue;
    }
    reject(pendingSockets_[i], received.error());
    pendingSockets_.erase(pendingSockets_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return std::unique_ptr<RecvComm>();
}

Result<std::unique_ptr<SendComm>> shmConnect(uint64_t socketId, const Token& token) {
  UniqueFd socket = BPS_TRY(connectUnix(socketNameOf(socketId)));
  if (!socket) return std::unique_ptr<SendComm>();
  if (!isSameUser(socket.get())) return Status(Code::kRemote, "the listener belongs to another user");
  UniqueFd memory = BPS_TRY(Segment::createMemory());
  Segment segment = BPS_TRY(Segment::map(memory.get()));
  BPS_TRY(sendWithFd(socket.get(), encodeHello(token), memory.get()));
  return std::make_unique<SendComm>(std::move(segment), std::move(socket));
}

}  // namespace bps::plugin::shm
