// Constants of the plan. Every number that decides how a call is cut, sent and summed stands here; each row says what
// it trades. docs/measurements.md has the measurements behind them.
#pragma once
#include <cstddef>

namespace bps::constants {

// clang-format off
// name                                      value            unit   what a larger value trades
// Chunks.
inline constexpr size_t kMaxChunkBytes      = 256U << 10;  // bytes  fewer messages; less fits into the CPU's caches
inline constexpr size_t kMinChunkBytes      = 8U << 10;    // bytes  fewer messages; small calls overlap less
inline constexpr size_t kQuantumBytes       = 64;          // bytes  one cache line: chunks do not share lines
inline constexpr size_t kLocalQuantumBytes  = 48 * 64;     // bytes  2, 3, 4, 6, 8, 12, 16 or 24 local ranks divide it
inline constexpr size_t kMinLocalQuanta     = 64;          // quanta smaller calls use kQuantumBytes
inline constexpr double kChunkHeaderBytes   = 200;         // bytes  headers and acknowledgements of one chunk
inline constexpr double kRoundSeconds       = 9e-3;        // s      fewer messages; longer queues at the owners' ports
// Chunks in flight.
inline constexpr size_t kMaxWindow          = 4;           // rounds slack for late wake-ups; memory of lanes
inline constexpr size_t kMinWindow          = 2;           // rounds one is sent while one is answered
inline constexpr double kWindowSeconds      = 3e-3;        // s      slack for late wake-ups; longer queues
inline constexpr size_t kExchangeAhead      = 3;           // chunks sent ahead of the sums on the exchange path
// Small calls.
inline constexpr double kMessageSeconds     = 5e-6;        // s      fewer, larger messages
inline constexpr double kHopSeconds         = 15e-6;       // s      more bytes for fewer hops
inline constexpr double kSumRate            = 4e9;         // B/s    more redundant sums on the exchange path
inline constexpr size_t kMaxSmallCallBytes  = 64U << 10;   // bytes  larger calls are better summed while they arrive
inline constexpr size_t kMaxExchangeBytes   = 4U << 20;    // bytes  of two machines: larger calls leave the CPU's caches
inline constexpr size_t kMaxExchangeMachines = 8;          // machines; messages per call grow with their square
// Work of the calling thread.
inline constexpr size_t kMaxCopiedBytes     = 16U << 10;   // bytes  chunks copied instead of registered or held
inline constexpr size_t kMaxInlineBytes     = 16U << 10;   // bytes  calls started by the thread that issues them
// Calls that measure the network when a communicator starts.
inline constexpr size_t kFirstProbeBytes    = 256U << 10;  // bytes  longer start; a better first estimate
inline constexpr size_t kMaxProbeBytes      = 4U << 20;    // bytes  longer start; a better estimate on fast networks
inline constexpr double kProbeSeconds       = 50e-3;       // s      longer start; a better estimate on slow networks
inline constexpr size_t kProbeChunkBytes    = 32U << 10;   // bytes  before the rate is known
inline constexpr int    kProbes             = 3;           // calls  the fastest counts
// clang-format on

}  // namespace bps::constants
