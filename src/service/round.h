// Compares and sums the contributions of the machines to one round of a summation service. Does no
// I/O.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
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
  // True if `data` is the sum of several ranks. Scalars and the division of a float average are
  // then already applied to it.
  bool summed = false;
  std::optional<ParamPart> part = std::nullopt;    // if the call is one on a parameter
  std::optional<ParamClock> clock = std::nullopt;  // if the part is restored
};

// Returns the value 1 in the given type. A multiplication by this scalar changes nothing.
ScalarBits scalarOne(DataType type);

// Fails with kInvalidUsage if two machines made different calls; the error names both machines.
// Fails with kInternal if two machines cut the same call differently.
Status checkRound(const std::vector<Contribution>& round, const std::function<std::string(size_t)>& nameOf);

// Sums a checked round with the operation of its call, and rounds once. A RoundSum belongs to one
// thread and reuses its vectors in later rounds.
//
// A float average must not overflow in a partial sum. The division by the number of ranks is
// therefore done where the contributions of single ranks are added, before the first rounding. If a
// round has only contributions of single ranks, their sum is divided. If a round also has sums made
// elsewhere, each single rank's contribution is divided before it is added. The sums made elsewhere
// are added without a division, because they are already divided. An integer average is divided
// once, when the sum includes all ranks.
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
