// delay-line NANOSECONDS HOST PORT [HOST PORT...]: delays frames for perf/emulated_cluster. HOST and PORT are inherited
// descriptors of TAP devices, two for each link. The exit status is 0 if standard input has ended, 1 after a failure,
// and 2 for wrong usage.
#include <sched.h>
#include <sys/prctl.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "perf/delay_line/delay_line.h"
#include "src/base/guard.h"

namespace bps::perf {
namespace {

constexpr int kFailed = 1, kUsage = 2;

std::optional<int> parseNumber(const char* text) {
  const char* const end = text + std::strlen(text);
  int value = 0;
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0) return {};
  return value;
}

// A link of hardware does not wait for a CPU. So this process runs before ordinary processes, if it may.
void raisePriority() {
  sched_param priority{};
  priority.sched_priority = 1;
  if (::sched_setscheduler(0, SCHED_FIFO, &priority) != 0) ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

Status run(int delay, std::vector<Link> links) {
  auto line = BPS_TRY(DelayLine::create(std::chrono::nanoseconds(delay), std::move(links)));
  raisePriority();
  return line->run();
}

int main(std::span<char*> words) {
  std::vector<int> numbers;
  for (const char* word : words.subspan(1)) {
    const std::optional<int> number = parseNumber(word);
    if (number) numbers.push_back(*number);
  }
  if (numbers.size() != words.size() - 1 || numbers.size() < 3 || numbers.size() % 2 == 0) {
    std::fputs("usage: delay-line NANOSECONDS HOST PORT [HOST PORT...]\n", stderr);
    return kUsage;
  }
  std::vector<Link> links;
  for (size_t i = 1; i < numbers.size(); i += 2) links.push_back({UniqueFd(numbers[i]), UniqueFd(numbers[i + 1])});
  const Status status = guarded([&] { return run(numbers[0], std::move(links)); });
  if (!status.ok()) std::fprintf(stderr, "delay-line: %s\n", status.message());
  return status.ok() ? 0 : kFailed;
}

}  // namespace
}  // namespace bps::perf

int main(int argc, char** argv) { return bps::perf::main({argv, static_cast<size_t>(argc)}); }
