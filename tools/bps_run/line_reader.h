// LineReader: splits a pipe's output into lines. LineTail: keeps the last lines of a process, to show them if it fails.
// Both belong to the thread of their owner.
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/io/fd.h"

namespace bps {

class LineReader {
 public:
  using Sink = std::function<void(std::string_view line)>;  // without the end of line

  LineReader(UniqueFd from, Sink sink) : from_(std::move(from)), sink_(std::move(sink)) {}

  int fd() const { return from_.get(); }  // -1 after the end of the output
  // Reads available input without blocking, up to a bound. A line longer than 64 KiB is cut.
  void pump();

 private:
  void take(std::string_view bytes);
  void finish();

  UniqueFd from_;
  Sink sink_;
  std::string partial_;
};

class LineTail {
 public:
  void add(std::string_view line);
  // Prints the lines to standard error, each with the prefix, and forgets them.
  void print(const std::string& prefix);

 private:
  std::deque<std::string> lines_;
  size_t dropped_ = 0;
};

// One write(2) per line, so that lines of several processes do not mix. A closed reader is ignored.
void printLine(int fd, const std::string& prefix, std::string_view line);

}  // namespace bps
