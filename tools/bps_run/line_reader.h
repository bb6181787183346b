// LineReader: cuts what comes out of a pipe into lines. LineTail: keeps the last lines of a process, for the day it
// fails.
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
  using Sink = std::function<void(std::string_view line)>;  // without the line's end

  LineReader(UniqueFd from, Sink sink) : from_(std::move(from)), sink_(std::move(sink)) {}

  int fd() const { return from_.get(); }  // -1: at the end
  // Reads what is there, up to a bound, without blocking. A line longer than 64 KiB is cut.
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
  // To standard error, each with the prefix; forgets them.
  void print(const std::string& prefix);

 private:
  std::deque<std::string> lines_;
  size_t dropped_ = 0;
};

// One write(2) per line, so that lines of several processes do not mix. A reader that has gone away is ignored.
void printLine(int fd, const std::string& prefix, std::string_view line);

}  // namespace bps
