#include "src/plan/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/base/format.h"

namespace bps {
namespace {

__extension__ using Int128 = __int128;
using Integers = std::vector<Int128>;

constexpr int kRateBits = 37;    // rates become integers below 2^37, so that no Int128 overflows with 2^20 owners
constexpr int kWeightBits = 40;  // weights add up to at most 2^40, so that the Cutter can multiply them by 2^64

Int128 sum(const Integers& values) { return std::accumulate(values.begin(), values.end(), Int128{0}); }

Status check(const Rates& rates) {
  if (rates.workers.empty()) return {Code::kInvalidArgument, "the split needs at least one worker"};
  for (size_t i = 0; i < rates.workers.size(); ++i) {
    if (!std::isfinite(rates.workers[i]) || rates.workers[i] <= 0)
      return failure(Code::kInvalidArgument, "worker {} has the rate {}, which is not a positive number", i,
                     rates.workers[i]);
  }
  for (size_t j = 0; j < rates.servers.size(); ++j) {
    if (!std::isfinite(rates.servers[j]) || rates.servers[j] < 0)
      return failure(Code::kInvalidArgument, "server {} has the rate {}, which is not a number from 0", j,
                     rates.servers[j]);
  }
  return {};
}

// The rates as integers. The common unit of all rates is a power of two. The rate of a worker is at
// least 1.
struct IntegerRates {
  Integers workers, servers;
};

IntegerRates toIntegers(const Rates& rates) {
  double most = *std::max_element(rates.workers.begin(), rates.workers.end());
  for (double rate : rates.servers) most = std::max(most, rate);
  int exponent = 0;
  std::frexp(most, &exponent);
  const auto scaled = [&](double rate) { return Int128{std::llround(std::ldexp(rate, kRateBits - exponent))}; };
  IntegerRates out;
  for (double rate : rates.workers) out.workers.push_back(std::max(Int128{1}, scaled(rate)));
  for (double rate : rates.servers) out.servers.push_back(scaled(rate));
  return out;
}

// For n > 2. Returns the bound of every owner's share at the least T = P/Q, multiplied by n(n-2)Q
// to make it an integer.
Integers boundsForManyWorkers(const IntegerRates& rates) {
  const auto n = static_cast<Int128>(rates.workers.size());
  Int128 p = 2 * n * (n - 1);
  Int128 q = n * sum(rates.workers) + (n - 2) * sum(rates.servers);
  const Int128 slowest = *std::min_element(rates.workers.begin(), rates.workers.end());
  if (q > p * slowest) {
    p = 1;
    q = slowest;
  }
  Integers bounds;
  for (Int128 rate : rates.workers) bounds.push_back(n * (rate * p - q));
  for (Int128 rate : rates.servers) bounds.push_back((n - 2) * rate * p);
  return bounds;
}

// For n = 2. The time T = M / min B allows server j the share C_j / (2 min B). The workers divide
// the rest in proportion to their rates.
Integers boundsForTwoWorkers(const IntegerRates& rates) {
  const Int128 full = 2 * std::min(rates.workers[0], rates.workers[1]);
  const Int128 both = sum(rates.workers);
  const Int128 rest = std::max(Int128{0}, full - sum(rates.servers));
  Integers bounds;
  for (Int128 rate : rates.workers) bounds.push_back(rate * rest);
  for (Int128 rate : rates.servers) bounds.push_back(rate * both);
  return bounds;
}

Integers bounds(const IntegerRates& rates) {
  if (rates.workers.size() > 2) return boundsForManyWorkers(rates);
  if (rates.workers.size() == 2) return boundsForTwoWorkers(rates);
  Integers alone(1 + rates.servers.size(), 0);
  alone[0] = 1;
  return alone;
}

Int128 commonDivisor(const Integers& values) {
  Int128 divisor = 0;
  for (Int128 value : values) {
    while (value != 0) divisor = std::exchange(value, divisor % value);
  }
  return divisor;
}

std::vector<uint64_t> toWeights(Integers values) {
  const Int128 divisor = commonDivisor(values);
  for (Int128& value : values) value /= divisor;
  Int128 total = sum(values);
  constexpr Int128 kMost = Int128{1} << kWeightBits;
  if (total > kMost) {
    int shift = 0;  // prevents an overflow of the multiplication below
    while ((total >> shift) >> (126 - kWeightBits) != 0) ++shift;
    total >>= shift;
    for (Int128& value : values) value = ((value >> shift) * kMost) / total;
  }
  std::vector<uint64_t> weights;
  for (Int128 value : values) weights.push_back(static_cast<uint64_t>(value));
  return weights;
}

double leastSecondsPerByte(const Rates& rates) {
  const auto n = static_cast<double>(rates.workers.size());
  if (rates.workers.size() == 1) return 0;
  const double slowest = *std::min_element(rates.workers.begin(), rates.workers.end());
  const double workers = std::accumulate(rates.workers.begin(), rates.workers.end(), 0.0);
  const double servers = std::accumulate(rates.servers.begin(), rates.servers.end(), 0.0);
  return std::max(1 / slowest, 2 * n * (n - 1) / (n * workers + (n - 2) * servers));
}

}  // namespace

Result<Shares> solveShares(const Rates& rates) {
  BPS_TRY(check(rates));
  const Integers exact = bounds(toIntegers(rates));
  const auto total = static_cast<double>(sum(exact));
  Shares shares;
  for (size_t owner = 0; owner < exact.size(); ++owner) {
    const double share = static_cast<double>(exact[owner]) / total;
    (owner < rates.workers.size() ? shares.workers : shares.servers).push_back(share);
  }
  shares.secondsPerByte = leastSecondsPerByte(rates);
  shares.weights = toWeights(exact);
  return shares;
}

double workerTraffic(size_t workers, double share) {
  return workers < 2 ? 0 : 1 + (static_cast<double>(workers) - 2) * share;
}

double serverTraffic(size_t workers, double share) { return workers < 2 ? 0 : static_cast<double>(workers) * share; }

}  // namespace bps
