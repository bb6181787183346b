// LineReader splits the output of a pipe into lines. LineTail keeps the last lines of a process, to
// show them if the process fails. Only one thread may use an object of these classes.
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
  using Sink = std::function<void(std::string_view line)>;  // receives each line without its newline character

  LineReader(UniqueFd from, Sink sink) : from_(std::move(from)), sink_(std::move(sink)) {}

  int fd() const { return from_.get(); }  // -1 after the end of the output
  // Reads a limited amount of available input without blocking. Splits a line that is longer than
  // 64 KiB.
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
  // Prints the lines with the prefix to standard error, and then forgets the lines.
  void print(const std::string& prefix);

 private:
  std::deque<std::string> lines_;
  size_t dropped_ = 0;
};

// Writes the prefix and the line with one write(2), so that lines of several processes do not mix.
// Ignores an error, for example a closed pipe.
void printLine(int fd, const std::string& prefix, std::string_view line);

}  // namespace bps
