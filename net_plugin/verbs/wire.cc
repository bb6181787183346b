#include "net_plugin/verbs/wire.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/wire_io.h"

namespace bps::plugin::verbs {
namespace {

constexpr uint32_t kSignMagic = 0x56737062;    // "bpsV"
constexpr uint32_t kOfferMagic = 0x51737062;   // "bpsQ"
constexpr uint32_t kNoticeMagic = 0x4e737062;  // "bpsN"
constexpr uint16_t kVersion = 1;
constexpr size_t kSignAt = 64;
constexpr size_t kSignBytes = 24;
constexpr uint32_t kMost24 = (1U << 24) - 1;
constexpr uint64_t kLeastPiece = 4096;

void putGid(WireWriter& writer, const GidBytes& gid) {
  for (const uint8_t byte : gid) writer.put(byte);
}

GidBytes getGid(WireReader& reader) {
  GidBytes gid{};
  for (uint8_t& byte : gid) byte = reader.get<uint8_t>();
  return gid;
}

bool isLink(LinkLayer link) { return link == LinkLayer::kInfiniBand || link == LinkLayer::kEthernet; }

}  // namespace

void writeSign(tcp::HandleBytes& handle, const Sign& sign) {
  WireWriter writer;
  writer.put(kSignMagic).put(kVersion).put(sign.link).put(uint8_t{0});
  putGid(writer, sign.gid);
  std::copy(writer.bytes().begin(), writer.bytes().end(), handle.begin() + kSignAt);
}

std::optional<Sign> readSign(std::span<const uint8_t> handle) {
  if (handle.size() != abi::kHandleBytes) return std::nullopt;
  WireReader reader(handle.subspan(kSignAt, kSignBytes));
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  Sign sign{.link = reader.get<LinkLayer>()};
  reader.get<uint8_t>();
  sign.gid = getGid(reader);
  if (magic != kSignMagic || version != kVersion || !isLink(sign.link)) return std::nullopt;
  return sign;
}

OfferBytes encodeOffer(const Offer& offer) {
  WireWriter writer;
  writer.put(kOfferMagic).put(kVersion).put(offer.link).put(offer.mtu).put(offer.write).put(uint8_t{0});
  writer.put(offer.lid).put(offer.queuePair).put(offer.firstPacket).put(offer.pieceBytes);
  putGid(writer, offer.gid);
  OfferBytes bytes{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), bytes.begin());
  return bytes;
}

Result<Offer> parseOffer(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  const auto magic = reader.get<uint32_t>();
  const auto version = reader.get<uint16_t>();
  Offer offer;
  offer.link = reader.get<LinkLayer>();
  offer.mtu = reader.get<uint8_t>();
  const auto write = reader.get<uint8_t>();
  offer.write = write != 0;
  reader.get<uint8_t>();
  offer.lid = reader.get<uint16_t>();
  offer.queuePair = reader.get<uint32_t>();
  offer.firstPacket = reader.get<uint32_t>();
  offer.pieceBytes = reader.get<uint64_t>();
  offer.gid = getGid(reader);
  if (reader.truncated() || magic != kOfferMagic)
    return Status(Code::kRemote, "what came is not the offer of a queue pair");
  if (version != kVersion)
    return failure(Code::kRemote,
                   "offer of a queue pair of version {}, this plugin speaks {}: use the same bps on both sides",
                   version, kVersion);
  if (!isLink(offer.link) || offer.mtu < 1 || offer.mtu > 5 || write > 1 || offer.queuePair > kMost24 ||
      offer.firstPacket > kMost24 || offer.pieceBytes < kLeastPiece)
    return Status(Code::kRemote, "the offer of a queue pair is one that no device can make");
  return offer;
}

NoticeBytes encodeNotice(const Notice& notice) {
  WireWriter writer;
  writer.put(kNoticeMagic).put(kVersion).put(notice.kind).put(notice.number).put(notice.bytes);
  NoticeBytes bytes{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), bytes.begin());
  return bytes;
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
    return Status(Code::kRemote, "what came beside the queue pair is not a notice");
  return notice;
}

}  // namespace bps::plugin::verbs
