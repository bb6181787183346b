// What the verbs transport puts into handles and on the socket of a connection: fixed size, little-endian, with magic
// and version. The parsers are pure and take any bytes.
//
//   sign    in the handle: the listener's device speaks verbs, and at which address
//   offer   from each side, first: its queue pair
//   notice  afterwards: that the queue pair is ready; later what cannot be told through it
#pragma once
#include <optional>

#include "net_plugin/tcp/wire.h"
#include "net_plugin/verbs/port.h"

namespace bps::plugin::verbs {

struct VerbsExtension {
  LinkLayer link = LinkLayer::kInfiniBand;
  GidBytes gid{};
};
// It stands where TCP and the door's sign leave the handle zero.
void writeVerbsExtension(tcp::HandleBytes& handle, const VerbsExtension& verbsExtension);
std::optional<VerbsExtension> readVerbsExtension(std::span<const uint8_t> handle);

struct QueuePairInfo {
  LinkLayer link = LinkLayer::kInfiniBand;
  uint8_t mtu = 1;     // 1: 256 bytes, to 5: 4096
  bool write = false;  // RDMA WRITE with immediate; else SEND
  uint16_t lid = 0;
  uint32_t queuePair = 0, startPsn = 0;  // 24 bits
  uint64_t pieceBytes = 0;               // most of one request
  GidBytes gid{};
};
inline constexpr size_t kQueuePairInfoBytes = 48;
using QueuePairInfoBytes = std::array<uint8_t, kQueuePairInfoBytes>;
QueuePairInfoBytes encodeQueuePairInfo(const QueuePairInfo& info);
Result<QueuePairInfo> parseQueuePairInfo(std::span<const uint8_t> bytes);

struct Notice {
  enum class Kind : uint16_t {
    kReady = 1,  // the queue pair takes messages
    kTooLarge,   // message `number` has `bytes`, more than its receive
    kGoodbye,    // the receiver closes, with messages below `number` received
  };
  Kind kind = Kind::kReady;
  uint64_t number = 0, bytes = 0;
};
inline constexpr size_t kNoticeBytes = 24;
using NoticeBytes = std::array<uint8_t, kNoticeBytes>;
NoticeBytes encodeNotice(const Notice& notice);
Result<Notice> parseNotice(std::span<const uint8_t> bytes);

}  // namespace bps::plugin::verbs
