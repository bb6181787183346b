#include "src/control/relay/relay_messages.h"

#include "src/base/format.h"
#include "src/base/io/wire_io.h"
#include "src/control/link/printable.h"

namespace bps {
namespace {

constexpr uint32_t kMagic = 0x72737062;  // "bpsr"
constexpr uint16_t kVersion = 1;
constexpr size_t kIpv4Bytes = 4, kIpv6Bytes = 16;

Status checkStart(WireReader& in) {
  if (in.get<uint32_t>() != kMagic) return {Code::kRemote, "the other side is no relay of bps"};
  const auto version = in.get<uint16_t>();
  if (version == kVersion) return {};
  return failure(Code::kRemote, "the other side has version {} of the relay protocol, this one has version {}", version,
                 kVersion);
}

}  // namespace

std::array<uint8_t, RelayRequest::kBytes> encodeRelay(const RelayRequest& request) {
  const std::span<const uint8_t> ip = request.target.ip();
  WireWriter out;
  out.put(kMagic).put(kVersion).put(request.kind).put(static_cast<uint8_t>(ip.size())).putRaw(ip);
  for (size_t i = ip.size(); i < kIpv6Bytes; ++i) out.put(uint8_t{0});
  out.put(request.target.port());
  return out.padded<RelayRequest::kBytes>();
}

std::array<uint8_t, RelayReply::kBytes> encodeRelay(const RelayReply& reply) {
  const size_t hops = std::min(reply.hops.size(), RelayReply::kMaxHops);
  WireWriter out;
  out.put(kMagic).put(kVersion).put(reply.outcome).put(static_cast<uint8_t>(hops));
  for (size_t hop = 0; hop < hops; ++hop) {
    const std::string host = reply.hops[hop].host.substr(0, RelayReply::kHostBytes);
    std::array<uint8_t, RelayReply::kHostBytes> padded{};
    std::copy(host.begin(), host.end(), padded.begin());
    out.put(reply.hops[hop].rank).put(static_cast<uint8_t>(host.size())).putRaw(padded);
  }
  return out.padded<RelayReply::kBytes>();
}

Result<RelayRequest> decodeRelayRequest(std::span<const uint8_t, RelayRequest::kBytes> bytes) {
  WireReader in(bytes);
  BPS_TRY(checkStart(in));
  RelayRequest request;
  request.kind = in.get<RelayRequest::Kind>();
  const auto ipBytes = in.get<uint8_t>();
  const auto ip = in.getArray<kIpv6Bytes>();
  const auto port = in.get<uint16_t>();
  const bool known = request.kind == RelayRequest::Kind::kForward || request.kind == RelayRequest::Kind::kAsk;
  if (!known || (ipBytes != kIpv4Bytes && ipBytes != kIpv6Bytes) || port == 0)
    return Status(Code::kRemote, "a field of the request to the relay is out of range");
  request.target = Address::of(std::span(ip).first(ipBytes), port);
  return request;
}

Result<RelayReply> decodeRelayReply(std::span<const uint8_t, RelayReply::kBytes> bytes) {
  WireReader in(bytes);
  BPS_TRY(checkStart(in));
  RelayReply reply;
  reply.outcome = in.get<RelayReply::Outcome>();
  const auto hops = in.get<uint8_t>();
  if (reply.outcome < RelayReply::Outcome::kConnected || reply.outcome > RelayReply::Outcome::kBroken ||
      hops > RelayReply::kMaxHops || (hops == 0) == (reply.outcome == RelayReply::Outcome::kConnected))
    return Status(Code::kRemote, "a field of the relay's reply is out of range");
  for (size_t hop = 0; hop < hops; ++hop) {
    const auto rank = in.get<uint32_t>();
    const size_t length = std::min<size_t>(in.get<uint8_t>(), RelayReply::kHostBytes);
    const auto host = in.getArray<RelayReply::kHostBytes>();
    reply.hops.push_back(
        {rank, printable(std::string(host.begin(), host.begin() + static_cast<std::ptrdiff_t>(length)))});
  }
  return reply;
}

std::string hopsText(const std::vector<RelayHop>& hops) {
  std::string text;
  for (const RelayHop& hop : hops)
    text += (text.empty() ? "" : ", then ") + fmt::format("rank {} ({})", hop.rank, hop.host);
  return text;
}

}  // namespace bps
