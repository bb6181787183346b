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
    return failure(Code::kInvalidUsage, "a rank's libbps-nccl speaks version {}, ours {}; install the same everywhere",
                   capabilities.version, Capabilities::kVersion);
  if (reader.truncated()) return Status(Code::kRemote, "what a rank shows of itself cannot be read");
  return capabilities;
}

NegotiationResult concludeNegotiation(std::span<const Capabilities> allCapabilities) {
  NegotiationResult what;
  std::set<uint64_t> machines;
  what.maxProbeBytes = SIZE_MAX;
  for (const Capabilities& capabilities : allCapabilities) {
    machines.insert(capabilities.machine);
    what.maxProbeBytes = std::min<size_t>(what.maxProbeBytes, capabilities.maxProbeBytes);
  }
  what.machines = machines.size();
  const bool given = allCapabilities[0].minBytes != Bytes::kMeasured;
  for (size_t rank = 0; rank < allCapabilities.size(); ++rank)
    if (!allCapabilities[rank].canServe && what.reason.empty())
      what.reason = fmt::format("rank {}: {}", rank, allCapabilities[rank].why);
  if (!what.reason.empty()) return what;
  if (machines.size() < 2) {
    what.reason = "one machine";
    return what;
  }
  if (!allCapabilities[0].hasServers && !given) {
    what.reason = "BPS_SERVERS is not set on rank 0";
    return what;
  }
  what.join = true;
  what.measure = !given;
  what.minBytes = given ? allCapabilities[0].minBytes : 0;
  what.reason = given ? "BPS_NCCL_MIN_BYTES" : "measured";
  return what;
}

size_t crossOver(std::span<const Timing> timings) {
  size_t least = kServeNone;
  for (size_t i = timings.size(); i-- > 0 && timings[i].bps < timings[i].nccl;) least = timings[i].bytes;
  return least;
}

}  // namespace bps::interpose
