// Constants of the plan: all numbers that decide how a call is cut, sent and summed. Many comments say
// what a larger value gains and loses. docs/measurements.md has the measurements behind the values.
#pragma once
#include <cstddef>

namespace bps::constants {

// clang-format off
// name                                      value            unit; effect of a larger value
// Chunks.
inline constexpr size_t kMaxChunkBytes      = 256U << 10;  // bytes; a larger value saves messages but overflows caches
inline constexpr size_t kMinChunkBytes      = 6U << 10;    // bytes; a larger value saves messages but reduces overlap
// The blocks of an all-reduce on a BCube (bcube.h).
inline constexpr size_t kMinBcubeBlock = 16U << 10, kMaxBcubeBlock = 64U << 10, kBcubeBlocks = 48;
inline constexpr size_t kBcubeBytesInFlight = 256U << 10;
inline constexpr size_t kQuantumBytes       = 64;          // bytes of a cache line, so that chunks do not share lines
inline constexpr size_t kLocalQuantumBytes  = 48 * 64;     // bytes; 2, 3, 4, 6, 8, 12, 16 and 24 local ranks divide it
inline constexpr size_t kMinLocalQuanta     = 64;          // quanta; smaller calls use kQuantumBytes as their quantum
inline constexpr double kChunkHeaderBytes   = 200;         // bytes of headers and acknowledgements for one chunk
inline constexpr double kRoundSeconds       = 3.75e-3;     // s; a larger value saves messages but lengthens queues
inline constexpr size_t kMaxRoundBytes      = 2U << 20;    // bytes of all machines' chunks for one owner; more need memory
// Chunks in flight.
inline constexpr size_t kMinWindow          = 2;           // rounds; one is sent while another one is answered
inline constexpr double kSpareRounds        = 1.8;         // rounds; more keep NICs busy beside late chunks but lengthen queues
inline constexpr double kMaxSpareShare      = 0.05;        // of a call's rounds; more disturb the order of small calls
inline constexpr size_t kMaxWindow          = 8;           // rounds; more bridge longer round trips but need memory
inline constexpr size_t kExchangeAhead      = 3;           // chunks of a call sent ahead of the sums (exchange path)
inline constexpr size_t kExchangeSlots      = 4;           // chunks in flight on the exchange path; more need memory
inline constexpr size_t kMinExchangeChunk   = 4U << 10;    // bytes; larger ones need more memory with many machines
inline constexpr double kMinHoldSeconds     = 2e-3;        // s; larger values delay lower priorities when a peer is late
// Small calls.
inline constexpr double kMessageSeconds     = 5e-6;        // s; a larger value gives fewer and larger messages
inline constexpr double kHopSeconds         = 15e-6;       // s; a larger value spends more bytes to save hops
inline constexpr double kSumRate            = 4e9;         // bytes/s; a larger value favours the exchange path
inline constexpr size_t kMaxSmallCallBytes  = 64U << 10;   // bytes; larger calls are better summed while they arrive
inline constexpr size_t kMaxExchangeBytes   = 4U << 20;    // bytes, for two machines; larger calls overflow CPU caches
inline constexpr size_t kMaxFusedBytes      = 16U << 10;   // bytes; larger calls of a group gain less than they copy
// Work of the calling thread.
inline constexpr size_t kMaxCopiedBytes     = 16U << 10;   // bytes; smaller chunks are copied, not registered or held
inline constexpr size_t kMaxInlineBytes     = 16U << 10;   // bytes; the issuing thread starts calls up to this size
// Calls that measure the network when a communicator starts.
inline constexpr size_t kFirstProbeBytes    = 256U << 10;  // bytes; a larger value improves the first estimate
inline constexpr size_t kMaxProbeBytes      = 4U << 20;    // bytes; a larger value measures fast networks better
inline constexpr double kProbeSeconds       = 50e-3;       // s; a larger value measures slow networks better
inline constexpr size_t kProbeChunkBytes    = 32U << 10;   // bytes of a chunk before the rate is known
inline constexpr int    kProbes             = 2;           // runs of each probe, of which the fastest one counts
inline constexpr int    kSmallProbeCalls    = 4;           // calls of a probe that measures small calls
inline constexpr size_t kFineProbeChunks    = 4;           // chunks of the second probe for each chunk of the first one
inline constexpr double kProbeNoise         = 0.05;        // of a probe's time; smaller differences do not count
// clang-format on

}  // namespace bps::constants
