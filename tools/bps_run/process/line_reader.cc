#include "tools/bps_run/process/line_reader.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace bps {
namespace {

constexpr size_t kLongestLine = 64U << 10;
constexpr size_t kKeptLines = 20;
constexpr int kReadsAtOnce = 16;  // limits one pump(), so that bps-run also serves other processes

}  // namespace

void LineReader::pump() {
  std::array<char, 16384> buffer;
  for (int reads = 0; from_ && reads < kReadsAtOnce; ++reads) {
    const ssize_t got = ::read(from_.get(), buffer.data(), buffer.size());
    if (got > 0) {
      take({buffer.data(), static_cast<size_t>(got)});
    } else if (got < 0 && errno == EAGAIN) {
      return;
    } else if (got == 0 || errno != EINTR) {
      finish();
    }
  }
}

void LineReader::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    partial_ += bytes.substr(0, end);
    if (end == std::string_view::npos && partial_.size() < kLongestLine) return;
    sink_(std::exchange(partial_, {}));
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
}

void LineReader::finish() {
  if (!partial_.empty()) sink_(std::exchange(partial_, {}));
  from_.reset();
}

void LineTail::add(std::string_view line) {
  lines_.emplace_back(line);
  if (lines_.size() > kKeptLines) {
    lines_.pop_front();
    ++dropped_;
  }
}

void LineTail::print(const std::string& prefix) {
  if (dropped_ > 0) printLine(STDERR_FILENO, prefix, fmt::format("({} earlier lines not shown)", dropped_));
  for (const std::string& line : lines_) printLine(STDERR_FILENO, prefix, line);
  lines_.clear();
  dropped_ = 0;
}

void printLine(int fd, const std::string& prefix, std::string_view line) {
  const std::string text = fmt::format("{}{}\n", prefix, line);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t put = ::write(fd, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    rest.remove_prefix(static_cast<size_t>(put));
  }
}

}  // namespace bps
