// The optimal split: which part of every buffer each owner sums. Pure.
//
// n worker machines with NIC rates B_i, k servers with rates C_j (the lesser of NIC and summation). An all-reduce of M
// bytes takes the least time T when the shares solve: minimise T, subject to sum s_i + sum c_j = 1, s_i, c_j >= 0,
//   worker i:  s_i <= (B_i T / M - 1) / (n - 2)   for n > 2,  and  T >= M / min B_i
//   server j:  c_j <= C_j T / (n M)
// (BytePS, OSDI'20, section 4, corrected and generalised to unequal rates.) For equal rates and 0 <= k <= n this is
// the closed form c = 2(n-1)/(n^2+kn-2k), s = (n-k)/(n^2+kn-2k).
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace bps {

struct Rates {
  std::vector<double> workers;  // bytes per second, > 0, at least one
  std::vector<double> servers;  // bytes per second, >= 0; 0: a server that is not there
};

struct Shares {
  std::vector<double> workers;  // fractions; all together 1
  std::vector<double> servers;
  double secondsPerByte = 0;    // T / M
};

Result<Shares> solveShares(const Rates& rates);

// Shares as integers that every rank computes with alike. Owners are the workers 0..n-1, then the servers. Equal rates
// give the exact closed form; otherwise fractions of 2^40. At least one is positive.
std::vector<uint64_t> shareWeights(const Rates& rates, const Shares& shares);

}  // namespace bps
