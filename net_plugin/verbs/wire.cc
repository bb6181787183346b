#include "net_plugin/verbs/wire.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/io/wire_io.h"

namespace bps::plugin::verbs {
namespace {

constexpr uint32_t kExtensionMagic = 0x56737062;      // "bpsV"
constexpr uint32_t kQueuePairInfoMagic = 0x51737062;  // "bpsQ"
constexpr uint32_t kNoticeMagic = 0x4e737062;         // "bpsN"
constexpr uint16_t kVersion = 1;
constexpr size_t kExtensionOffset = 64;
constexpr size_t kExtensionBytes = 24;
constexpr uint32_t kMax24Bits = (1U << 24) - 1;
constexpr uint64_t kMinPieceBytes = 4096;

bool isLink(LinkLayer link) { return link == LinkLayer::kInfiniBand || link == LinkLayer::kEthernet; }

}  // namespace

void writeVerbsExtension(tcp::HandleBytes& handle, const VerbsExtension& verbsExtension) {
  WireWriter writer;
  writer.put(kExtensionMagic).put(kVersion).put(verbsExtension.link).put(uint8_t{0}).putRaw(verbsExtension.gid);
  std::copy(writer.bytes().begin(), writer.bytes().end(), handle.begin() + kExtensionOffset);
}

std::optional<VerbsExtension> readVerbsExtension(std::span<const uint8_t> handle) {
  if (handle.size() != abi::kHandleBytes) return std::nullopt;
  WireReader reader(handle.subspan(kExtensionOffset, kExtensionBytes));
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  VerbsExtension verbsExtension{.link = reader.get<LinkLayer>()};
  reader.get<uint8_t>();
  verbsExtension.gid = reader.getArray<std::tuple_size_v<GidBytes>>();
  if (magic != kExtensionMagic || version != kVersion || !isLink(verbsExtension.link)) return std::nullopt;
  return verbsExtension;
}

QueuePairInfoBytes encodeQueuePairInfo(const QueuePairInfo& info) {
  WireWriter writer;
  writer.put(kQueuePairInfoMagic).put(kVersion).put(info.link).put(info.mtu).put(info.write).put(uint8_t{0});
  writer.put(info.lid).put(info.queuePair).put(info.startPsn).put(info.pieceBytes).putRaw(info.gid);
  return writer.padded<kQueuePairInfoBytes>();
}

Result<QueuePairInfo> parseQueuePairInfo(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  QueuePairInfo info;
  info.link = reader.get<LinkLayer>();
  info.mtu = reader.get<uint8_t>();
  const auto write = reader.get<uint8_t>();
  info.write = write != 0;
  reader.get<uint8_t>();
  info.lid = reader.get<uint16_t>();
  info.queuePair = reader.get<uint32_t>();
  info.startPsn = reader.get<uint32_t>();
  info.pieceBytes = reader.get<uint64_t>();
  info.gid = reader.getArray<std::tuple_size_v<GidBytes>>();
  if (reader.truncated() || magic != kQueuePairInfoMagic)
    return Status(Code::kRemote, "the message is not a queue pair info");
  if (version != kVersion)
    return failure(Code::kRemote,
                   "queue pair info of version {}, this plugin speaks {}: use the same bps on both sides", version,
                   kVersion);
  if (!isLink(info.link) || info.mtu < 1 || info.mtu > 5 || write > 1 || info.queuePair > kMax24Bits ||
      info.startPsn > kMax24Bits || info.pieceBytes < kMinPieceBytes)
    return Status(Code::kRemote, "queue pair info: a field is out of range");
  return info;
}

NoticeBytes encodeNotice(const Notice& notice) {
  WireWriter writer;
  writer.put(kNoticeMagic).put(kVersion).put(notice.kind).put(notice.number).put(notice.bytes);
  return writer.padded<kNoticeBytes>();
}

Result<Notice> parseNotice(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  Notice notice{.kind = reader.get<Notice::Kind>()};
  notice.number = reader.get<uint64_t>();
  notice.bytes = reader.get<uint64_t>();
  if (reader.truncated() || magic != kNoticeMagic || version != kVersion || notice.kind < Notice::Kind::kReady ||
      notice.kind > Notice::Kind::kGoodbye)
    return Status(Code::kRemote, "the message on the liveness socket is not a notice");
  return notice;
}

}  // namespace bps::plugin::verbs
