#include "perf/report/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "src/base/format.h"

namespace bps::perf {

ProgressLine::ProgressLine(size_t rows) : rows_(rows), enabled_(::isatty(STDERR_FILENO) == 1) {}

void ProgressLine::begin(const Row& row, bool inPlace) {
  if (!inPlace) ++row_;
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  if (!enabled_ || elapsed < std::chrono::seconds(1)) return;
  const std::string of = rows_ > 0 ? fmt::format(" of {}", rows_) : std::string();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed).count();
  fmt::print(stderr, "\r\033[Kbps-perf: row {}{}: {} bytes, {} {}, {}, {} s", row_, of, row.bytes, row.type, row.op,
             inPlace ? "in place" : "out of place", seconds);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

size_t numberOfRows(const Options& options) {
  if (options.cycles <= 0) return 0;
  size_t sizes = 0;
  for (std::optional<uint64_t> size = options.minBytes; size; size = nextSize(options, *size)) ++sizes;
  return sizes * chosenTypes(options.type).size() * chosenOps(options.op).size() * static_cast<size_t>(options.cycles);
}

}  // namespace bps::perf
