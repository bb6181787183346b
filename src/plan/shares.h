// The optimal split: the fraction of every buffer that each owner sums. All functions are pure.
//
// There are n worker machines with NIC rates B_i and k servers with rates C_j. C_j is the lower of
// the NIC rate and the summation rate of server j. An all-reduce of M bytes takes the least time T
// if the shares s_i of the workers and c_j of the servers solve this problem: minimise T, subject
// to sum s_i + sum c_j = 1, s_i >= 0, c_j >= 0,
//   worker i:  s_i <= (B_i T / M - 1) / (n - 2)   for n > 2,  and  T >= M / min B_i
//   server j:  c_j <= C_j T / (n M)
// The problem is from BytePS (OSDI'20, section 4), corrected and generalised to unequal rates. For
// equal rates and 0 <= k <= n the solution is c = 2(n-1)/(n^2+kn-2k), s = (n-k)/(n^2+kn-2k).
//
// If T >= M / min B_i, the bounds of all s_i are at least 0. Then all bounds are linear in T, and
// this formula gives the least T:
//   T / M = max(1 / min B_i, 2n(n-1) / (n sum B_i + (n-2) sum C_j)).
// If the first term is the larger one, the bounds add up to more than 1. Every owner then takes the
// same fraction of its bound. If n = 2, each worker sends and receives M bytes whatever the shares
// are: the servers take as much as their bounds allow, and the workers take the rest. If n = 1, the
// worker needs no network and sums everything.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace bps {

struct Rates {
  std::vector<double> workers;  // at least one, each > 0; in bytes per second or any other common unit
  std::vector<double> servers;  // each >= 0; the rate of an absent server is 0
};

struct Shares {
  std::vector<double> workers;  // fractions; workers and servers add up to 1
  std::vector<double> servers;
  double secondsPerByte = 0;  // T / M

  // The shares as integers for the Cutter. The workers 0..n-1 come first, then the servers. The
  // weights are computed with integers only, so that every rank gets the same weights. Equal rates
  // give the exact closed form. Other rates give weights in lowest terms or, if these would be too
  // large, weights that add up to about 2^40. At least one weight is positive.
  std::vector<uint64_t> weights;
};

// Fails with kInvalidArgument if there is no worker or if a rate is not a finite number in its
// range.
Result<Shares> solveShares(const Rates& rates);

// Returns the bytes that a NIC sends, and also receives, for one byte of buffer. The result is 1 +
// (n-2)s for the NIC of a worker and n c for the NIC of a server. The result is 0 if n = 1.
double workerTraffic(size_t workers, double share);
double serverTraffic(size_t workers, double share);

}  // namespace bps
