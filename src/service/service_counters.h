// ServiceCounters: what a ChunkService has done since it was created. The metrics of a process add them up.
#pragma once
#include <cstdint>

namespace bps {

struct ServiceCounters {
  // Payload bytes of contributions from other machines, of answers to other machines, and of all contributions summed.
  uint64_t bytesReceived = 0, bytesSent = 0, bytesSummed = 0;
  uint64_t rounds = 0;  // rounds summed
  // Now: contributions that wait for other machines, and answers that the transport has not accepted.
  uint64_t queued = 0, unsent = 0;

  ServiceCounters& operator+=(const ServiceCounters& other) {
    bytesReceived += other.bytesReceived;
    bytesSent += other.bytesSent;
    bytesSummed += other.bytesSummed;
    rounds += other.rounds;
    queued += other.queued;
    unsent += other.unsent;
    return *this;
  }
  // The counters without the two values that describe a moment.
  ServiceCounters ended() const { return {bytesReceived, bytesSent, bytesSummed, rounds, 0, 0}; }
};

}  // namespace bps
