// The format of a trace file (docs/trace.md): magic, version, length, payload and a checksum of the payload.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "src/trace/event.h"
#include "src/wire/clock_offset.h"

namespace bps::trace {

inline constexpr uint32_t kFileVersion = 1;

// The header names the process that wrote the file, and describes its communicator.
struct Header {
  bool server = false;
  uint32_t number = 0;    // the rank, or the number of the server
  uint32_t endpoint = 0;  // the machine of the rank, or the server
  uint64_t job = 0;
  std::string host;
  uint32_t pid = 0;
  // The names of all endpoints: the machines first, then the servers. A machine has the name of its ranks.
  std::vector<std::string> names;
  std::vector<double> rates;  // of the NIC, in bytes per second; 0: not known
  uint32_t machines = 0, ranks = 0;
};

struct File {
  Header header;
  std::vector<ClockPoint> clock;  // by how much rank 0's clock is ahead; empty in rank 0's file
  uint64_t lost = 0;              // number of older events that were overwritten
  std::vector<Event> events;
};

Blob encode(const File& file);
// Checks the version, the length, the checksum and every field. The error says what is wrong.
Result<File> decodeFile(std::span<const uint8_t> bytes);

}  // namespace bps::trace
