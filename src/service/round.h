// One round of a summation service: compares and sums what the machines contributed. Does no I/O.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "src/base/status.h"
#include "src/wire/data_header.h"

namespace bps {

// The contribution of one machine to a round.
struct Contribution {
  CallInfo call;
  const void* data = nullptr;
  size_t bytes = 0;
  bool usesExchangePath = false;  // see DataHeader
  // the sum of several ranks; scalars, and the division of a float average, are already applied
  bool summed = false;
};

// The value one in the given type, as a pre-multiply scalar without effect.
ScalarBits scalarOne(DataType type);

// Fails with kInvalidUsage, naming both sides, if two machines made different calls. Fails with kInternal if they cut
// the same call differently.
Status checkRound(const std::vector<Contribution>& round, const std::function<std::string(size_t)>& nameOf);

// Sums a checked round: applies `op`, with one rounding. Belongs to one thread, and keeps its vectors between rounds.
//
// A float average must not overflow in a partial sum. So it is divided by the number of ranks at the place where the
// ranks' own contributions are added, before they are first rounded. If a round has only contributions of single ranks,
// their sum is divided. If it also has sums that were made elsewhere, each rank's contribution is divided before it is
// added, and the sums are added as they are. An integer average is divided once, when it includes all ranks.
class RoundSum {
 public:
  enum class Coverage { kSomeRanks, kAllRanks };
  RoundSum(uint64_t ranks, Coverage coverage, int threads) : ranks_(ranks), coverage_(coverage), threads_(threads) {}
  void run(const std::vector<Contribution>& round, void* target);

 private:
  void divide(const std::vector<Contribution>& round, ReduceArgs& args);

  uint64_t ranks_;
  Coverage coverage_;
  int threads_;
  std::vector<const void*> sources_;
  std::vector<ScalarBits> scalars_;
  std::vector<uint64_t> divisors_;
};

}  // namespace bps
