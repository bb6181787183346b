// Capabilities: what a rank of an NCCL communicator tells the other ranks in the negotiation. The functions in this
// file draw conclusions from the capabilities of all ranks. These functions have no side effects and return the same
// result on all ranks. Any thread may call these functions.
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

inline constexpr size_t kServeNone = SIZE_MAX;  // if this is the minimum size, bps serves no call

struct Capabilities : nccl::PeerInfo {
  static constexpr uint32_t kVersion = 4;
  static constexpr size_t kBytes = 256;
  uint32_t version = kVersion;
  bool canServe = true;                  // if false, `why` gives the reason
  uint64_t minBytes = Bytes::kMeasured;  // BPS_NCCL_MIN_BYTES
  uint64_t maxProbeBytes = 0;            // bytes of device memory that the measurement may use

  std::vector<uint8_t> bytes() const;
  static Result<Capabilities> parse(std::span<const uint8_t> bytes);
};

// The decisions for a communicator that follow from the capabilities of all its ranks.
struct NegotiationResult {
  bool join = false;
  bool measure = false;
  size_t minBytes = 0;
  size_t maxProbeBytes = 0;
  size_t machines = 0;
  std::string reason;
};
NegotiationResult concludeNegotiation(std::span<const Capabilities> allCapabilities);

// The time in seconds that one all-reduce takes with NCCL and with bps on the slowest rank.
struct Timing {
  size_t bytes;
  double nccl, bps;
};
// Returns the smallest measured size from which on bps was always faster than NCCL. If there is no such size, returns
// kServeNone.
size_t crossOver(std::span<const Timing> timings);

}  // namespace bps::interpose
