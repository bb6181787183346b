// Capabilities: what the ranks of an NCCL communicator tell each other, and the conclusions from it. Pure functions
// with the same result on all ranks. Threads: any.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bps/bps.h"
#include "src/base/env.h"
#include "src/base/status.h"
#include "src/nccl/local_gpu_groups.h"

namespace bps::interpose {

using nccl::RankStatus;

inline constexpr size_t kServeNone = SIZE_MAX;  // as a smallest size: bps serves no call

struct Capabilities : nccl::PeerInfo {
  static constexpr uint32_t kVersion = 3;
  static constexpr size_t kBytes = 256;
  uint32_t version = kVersion;
  bool canServe = true;                  // false: it cannot; `why` gives the reason
  uint64_t minBytes = Bytes::kMeasured;  // BPS_NCCL_MIN_BYTES
  uint64_t maxProbeBytes = 0;            // device memory that the measurement may use

  std::vector<uint8_t> bytes() const;
  static Result<Capabilities> parse(std::span<const uint8_t> bytes);
};

// The conclusion from all capabilities.
struct NegotiationResult {
  bool join = false;
  bool measure = false;
  size_t minBytes = 0;
  size_t maxProbeBytes = 0;
  size_t machines = 0;
  std::string reason;
};
NegotiationResult concludeNegotiation(std::span<const Capabilities> allCapabilities);

// The time of one all-reduce by each library, in seconds, on the slowest rank.
struct Timing {
  size_t bytes;
  double nccl, bps;
};
// The size from which on bps was always faster, or kServeNone.
size_t crossOver(std::span<const Timing> timings);

}  // namespace bps::interpose
