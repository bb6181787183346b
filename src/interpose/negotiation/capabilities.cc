#include "src/interpose/negotiation/capabilities.h"

#include <algorithm>
#include <set>

#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/io/wire_io.h"

namespace bps::interpose {

std::vector<uint8_t> Capabilities::bytes() const {
  WireWriter writer;
  writer.put(version).put(static_cast<uint8_t>(canServe)).put(minBytes).put(maxProbeBytes);
  put(writer);
  Blob blob = writer.bytes();
  blob.resize(kBytes);
  return blob;
}

Result<Capabilities> Capabilities::parse(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  Capabilities capabilities;
  capabilities.version = reader.get<uint32_t>();
  capabilities.canServe = reader.get<uint8_t>() != 0;
  capabilities.minBytes = reader.get<uint64_t>();
  capabilities.maxProbeBytes = reader.get<uint64_t>();
  capabilities.get(reader);
  if (capabilities.version != Capabilities::kVersion)
    return failure(
        Code::kInvalidUsage,
        "a rank's libbps-nccl has protocol version {}, this rank's has {}; install the same version on all ranks",
        capabilities.version, Capabilities::kVersion);
  if (reader.truncated()) return Status(Code::kRemote, "the capabilities of a rank cannot be read");
  return capabilities;
}

NegotiationResult concludeNegotiation(std::span<const Capabilities> allCapabilities) {
  NegotiationResult result;
  std::set<uint64_t> machines;
  result.maxProbeBytes = SIZE_MAX;
  for (const Capabilities& capabilities : allCapabilities) {
    machines.insert(capabilities.machine);
    result.maxProbeBytes = std::min<size_t>(result.maxProbeBytes, capabilities.maxProbeBytes);
  }
  result.machines = machines.size();
  const bool given = allCapabilities[0].minBytes != Bytes::kMeasured;
  for (size_t rank = 0; rank < allCapabilities.size(); ++rank)
    if (!allCapabilities[rank].canServe && result.reason.empty())
      result.reason = fmt::format("rank {}: {}", rank, allCapabilities[rank].why);
  if (!result.reason.empty()) return result;
  if (machines.size() < 2) {
    result.reason = "one machine";
    return result;
  }
  if (!allCapabilities[0].hasServers && !given) {
    result.reason = "BPS_SERVERS is not set on rank 0";
    return result;
  }
  result.join = true;
  result.measure = !given;
  result.minBytes = given ? allCapabilities[0].minBytes : 0;
  result.reason = given ? "BPS_NCCL_MIN_BYTES" : "measured";
  return result;
}

size_t crossOver(std::span<const Timing> timings) {
  size_t least = kServeNone;
  for (size_t i = timings.size(); i-- > 0 && timings[i].bps < timings[i].nccl;) least = timings[i].bytes;
  return least;
}

}  // namespace bps::interpose
