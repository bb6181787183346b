// Fuzzes the decoder of trace files, and what bps-trace makes of a file. The checksum in the last four bytes is set
// right, so that the fuzzer reaches the fields. A file that the decoder accepts must encode to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "src/base/checksum/crc32c.h"
#include "tools/bps_trace/report.h"
#include "tools/bps_trace/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  constexpr size_t kPrefix = 20, kChecksum = 4;
  if (size >= kPrefix + kChecksum) {
    const uint32_t sum = bps::crc32c(data + kPrefix, size - kPrefix - kChecksum);
    for (size_t i = 0; i < kChecksum; ++i) bytes[size - kChecksum + i] = static_cast<uint8_t>(sum >> (8 * i));
  }
  auto decoded = bps::trace::decodeFile(bytes);
  if (!decoded.ok()) return 0;
  bps::trace::TracedProcess process;
  process.path = "file";
  process.file = std::move(decoded).value();
  const bps::Blob again = bps::trace::encode(process.file);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  std::vector<bps::trace::TracedProcess> processes;
  processes.push_back(std::move(process));
  auto made = bps::trace::makeTraceSet(std::move(processes));
  if (!made.ok()) return 0;
  const bps::trace::TraceSet set = std::move(made).value();
  const bps::trace::JobHistory history(set);
  const bps::trace::Timeline timeline = bps::trace::makeTimeline(history);
  if (bps::trace::reportText(history).empty() || bps::trace::chromeJson(timeline).empty()) std::abort();
  if (bps::trace::timelineSvg(timeline, 0, set.end).empty()) std::abort();
  return 0;
}
