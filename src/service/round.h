// One round of a summation service: what every machine contributed, compared and summed. Pure but for the summing.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "src/base/status.h"
#include "src/wire/data_header.h"

namespace bps {

// What one machine brought to a round.
struct Contribution {
  CallInfo call;
  const void* data = nullptr;
  size_t bytes = 0;
  bool usesExchangePath = false;  // see DataHeader
  bool summed = false;            // over several ranks: scalars are in it, and the division of an average of floats
};

// One, in the given type, as a pre-multiply scalar that changes nothing.
ScalarBits scalarOne(DataType type);

// kInvalidUsage naming both sides when two machines ask for different calls. kInternal when they cut them differently.
Status checkRound(const std::vector<Contribution>& round, const std::function<std::string(size_t)>& nameOf);

// The sum of a checked round: how `op` is carried out, with one rounding. The vectors that it needs are kept from round
// to round.
//
// An average of floats is divided by the number of ranks where the ranks' own contributions are added, before they are
// rounded for the first time, so that no partial sum overflows the type: their sum is, where nothing else is added to
// it, else each of them. Sums of sums are plain. An average of integers is divided once, when all ranks are in it.
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
