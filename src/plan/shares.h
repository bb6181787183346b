// The optimal split: which part of every buffer each owner sums. Pure.
//
// n worker machines with NIC rates B_i, k servers with rates C_j (the lesser of NIC and summation). An all-reduce of M
// bytes takes the least time T when the shares solve: minimise T, subject to sum s_i + sum c_j = 1, s_i, c_j >= 0,
//   worker i:  s_i <= (B_i T / M - 1) / (n - 2)   for n > 2,  and  T >= M / min B_i
//   server j:  c_j <= C_j T / (n M)
// (BytePS, OSDI'20, section 4, corrected and generalised to unequal rates.) For equal rates and 0 <= k <= n this is
// the closed form c = 2(n-1)/(n^2+kn-2k), s = (n-k)/(n^2+kn-2k).
//
// From T = M / min B_i on no s_i bound is negative, so the bounds are linear in T and the answer is a formula:
//   T / M = max(1 / min B_i, 2n(n-1) / (n sum B_i + (n-2) sum C_j)).
// Where the first term decides, the bounds add up to more than 1: every owner then takes the same part of its bound.
// Two workers send and receive M whatever the shares are: servers then take what they can, the workers the rest. One
// worker needs no network and keeps everything.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace bps {

struct Rates {
  std::vector<double> workers;  // > 0, at least one; bytes per second, or any other unit if all have the same
  std::vector<double> servers;  // >= 0; 0: a server that is not there
};

struct Shares {
  std::vector<double> workers;  // fractions; all together 1
  std::vector<double> servers;
  double secondsPerByte = 0;  // T / M

  // The same as integers for the Cutter; owners are the workers 0..n-1, then the servers. They come from integer
  // arithmetic alone, so that every rank has the same ones. Equal rates give the exact closed form, others are in
  // lowest terms or, where these are too large, fractions of about 2^40. At least one is positive.
  std::vector<uint64_t> weights;
};

// kInvalidArgument: no worker, or a rate that is not a finite number in its range.
Result<Shares> solveShares(const Rates& rates);

// Bytes that each NIC sends (and receives) for one byte of buffer: worker 1 + (n-2)s, server n c; nothing for n = 1.
double workerTraffic(size_t workers, double share);
double serverTraffic(size_t workers, double share);

}  // namespace bps
