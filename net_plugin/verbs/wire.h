// The wire format of the verbs transport, in handles and on the socket of a connection. The format
// has three structures:
//
// - An extension is a field of the handle. It contains the link layer and the GID of the listener's
//   port.
// - A queue pair info is the first message of each side. It says how to connect to the queue pair
//   of that side.
// - A notice is a later message. It says that the queue pair is ready, or reports an event that the
//   queue pair itself cannot report.
//
// Each structure has a fixed size, little-endian fields, a magic and a version. The parsers have no
// side effects and accept arbitrary bytes without a crash.
#pragma once
#include <optional>

#include "net_plugin/tcp/wire.h"
#include "net_plugin/verbs/port.h"

namespace bps::plugin::verbs {

struct VerbsExtension {
  LinkLayer link = LinkLayer::kInfiniBand;
  GidBytes gid{};
};
// Writes the extension into bytes of the handle that the TCP handle and the shared memory extension
// leave zero.
void writeVerbsExtension(tcp::HandleBytes& handle, const VerbsExtension& verbsExtension);
std::optional<VerbsExtension> readVerbsExtension(std::span<const uint8_t> handle);

struct QueuePairInfo {
  LinkLayer link = LinkLayer::kInfiniBand;
  uint8_t mtu = 1;     // from 1 (256 bytes) to 5 (4096 bytes)
  bool write = false;  // use RDMA WRITE with immediate instead of SEND
  uint16_t lid = 0;
  uint32_t queuePair = 0, startPsn = 0;  // 24 bits
  uint64_t pieceBytes = 0;               // size limit of one work request
  GidBytes gid{};
};
inline constexpr size_t kQueuePairInfoBytes = 48;
using QueuePairInfoBytes = std::array<uint8_t, kQueuePairInfoBytes>;
QueuePairInfoBytes encodeQueuePairInfo(const QueuePairInfo& info);
Result<QueuePairInfo> parseQueuePairInfo(std::span<const uint8_t> bytes);

struct Notice {
  enum class Kind : uint16_t {
    kReady = 1,  // the queue pair can receive
    kTooLarge,   // message `number` has `bytes` bytes, more than its receive
    kGoodbye,    // the receiver closes and has received all messages before `number`
  };
  Kind kind = Kind::kReady;
  uint64_t number = 0, bytes = 0;
};
inline constexpr size_t kNoticeBytes = 24;
using NoticeBytes = std::array<uint8_t, kNoticeBytes>;
NoticeBytes encodeNotice(const Notice& notice);
Result<Notice> parseNotice(std::span<const uint8_t> bytes);

}  // namespace bps::plugin::verbs
