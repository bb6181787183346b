// ProgressLine shows on a terminal which row of a long table is measured. It writes to standard
// error, and only if that is a terminal, so no file contains it. One thread uses a ProgressLine.
#pragma once
#include <chrono>
#include <cstddef>

#include "perf/report/report.h"

namespace bps::perf {

class ProgressLine {
 public:
  // `rows` is the number of rows of all tables; 0 if it is unknown.
  explicit ProgressLine(size_t rows);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  // Shows that the measurement begins. Shows nothing in the first second.
  void begin(const Row& row, bool inPlace);
  // Removes the line, so that other text can be printed.
  void clear();

 private:
  const size_t rows_;
  const bool enabled_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  size_t row_ = 0;
  bool shown_ = false;
};

// Returns the number of rows that the options ask for; 0 if there is no end.
size_t numberOfRows(const Options& options);

}  // namespace bps::perf
