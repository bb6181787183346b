// Measures times, prints the lines that report them, and makes input values.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/gpu_ranks/job.h"

namespace bps::test {

using Clock = std::chrono::steady_clock;
inline constexpr int kRepetitions = 9;

inline double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Body>
double timed(const Body& body) {
  const auto start = Clock::now();
  body();
  return secondsSince(start);
}

inline double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

inline void reportFigure(const Job& job, const std::string& line) {
  if (job.rank() == 0) std::printf("figure: %s\n", line.c_str());
}

// Returns a value with so many bits that a sum of such values must be rounded.
inline float inputValue(size_t index, int rank) {
  const auto bits = static_cast<uint32_t>(index * 2654435761U + static_cast<size_t>(rank) * 40503U * 65537U);
  return static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31F;
}

}  // namespace bps::test
