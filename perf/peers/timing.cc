#include "perf/peers/timing.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>

namespace bps::perf {
namespace {

constexpr size_t kMinCalls = 5, kMaxCalls = 4000;  // limits of the number of calls of one size

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class Number>
bool parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0;
}

double medianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the number of calls that take `seconds`. Doubles a trial count until the trial calls take
// an eighth of that time, so that one disturbed call does not decide the result. All ranks must
// make equally many calls, so the slowest rank's time decides.
size_t callsWithin(ComparedLibrary& library, double seconds) {
  for (size_t calls = 1;; calls *= 2) {
    const double start = now();
    for (size_t i = 0; i < calls; ++i) library.allReduce();
    const double taken = library.maxOverRanks(now() - start);
    if (taken < seconds / 8 && calls < kMaxCalls) continue;
    return static_cast<size_t>(
        std::clamp(seconds / taken * static_cast<double>(calls), double{kMinCalls}, double{kMaxCalls}));
  }
}

// Returns the largest of the ranks' medians. A rank begins each call when its previous call has
// ended.
double medianMicros(ComparedLibrary& library, size_t calls) {
  std::vector<double> micros(calls);
  for (double& each : micros) {
    const double start = now();
    library.allReduce();
    each = (now() - start) * 1e6;
  }
  return library.maxOverRanks(medianOf(micros));
}

bool timeSize(ComparedLibrary& library, size_t bytes, double seconds) {
  const size_t count = bytes / sizeof(float);
  const int ranks = library.ranks(), total = ranks * (ranks + 1) / 2;
  const auto own = static_cast<float>(library.rank() + 1), sum = static_cast<float>(total);
  std::vector<float> send(count, own), recv(count, own);
  library.prepare(send.data(), recv.data(), count);
  library.allReduce();
  const auto wrong = std::count_if(recv.begin(), recv.end(), [&](float value) { return value != sum; });
  if (library.maxOverRanks(static_cast<double>(wrong)) > 0) {
    if (wrong > 0) std::fprintf(stderr, "rank %d: %td of %zu sums are not %g\n", library.rank(), wrong, count, sum);
    return false;
  }
  // Time the calls with zeros, which stay zeros if the sum replaces the input.
  std::fill(send.begin(), send.end(), 0.0F);
  std::fill(recv.begin(), recv.end(), 0.0F);
  const size_t calls = callsWithin(library, seconds);
  const double micros = medianMicros(library, calls);
  if (library.rank() == 0) {
    std::printf("{\"bytes\": %zu, \"calls\": %zu, \"micros\": %.3f}\n", bytes, calls, micros);
    std::fflush(stdout);
  }
  return true;
}

}  // namespace

bool parseTimingRequest(const char* sizes, const char* seconds, TimingRequest& request) {
  for (const char* part = sizes; part != nullptr;) {
    const char* comma = std::strchr(part, ',');
    const std::string_view text = comma == nullptr ? std::string_view(part) : std::string_view(part, comma);
    size_t bytes = 0;
    if (!parse(text, bytes) || bytes % sizeof(float) != 0) {
      std::fprintf(stderr, "\"%s\" is not a list of bytes, multiples of 4, such as 8,1024\n", sizes);
      return false;
    }
    request.sizes.push_back(bytes);
    part = comma == nullptr ? nullptr : comma + 1;
  }
  if (parse(seconds, request.seconds)) return true;
  std::fprintf(stderr, "\"%s\" is not a number of seconds above 0, such as 0.05\n", seconds);
  return false;
}

int timeAll(ComparedLibrary& library, const TimingRequest& request) {
  for (const size_t bytes : request.sizes) {
    if (!timeSize(library, bytes, request.seconds)) return 1;
  }
  return 0;
}

}  // namespace bps::perf
