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
  bool direct = false;  // see DataHeader
};

// One, in the given type, as a pre-multiply scalar that changes nothing.
ScalarBits oneOf(DataType type);

// kInvalidUsage naming both sides when two machines ask for different calls. kInternal when they cut them differently.
Status checkRound(const std::vector<Contribution>& round, const std::function<std::string(size_t)>& nameOf);

// The sum of a checked round: how `op` is carried out, with `divisor` for an average. The vectors that it needs are
// kept from round to round.
class RoundSum {
 public:
  RoundSum(uint64_t divisor, int threads) : divisor_(divisor), threads_(threads) {}
  void run(const std::vector<Contribution>& round, void* target);

 private:
  uint64_t divisor_;
  int threads_;
  std::vector<const void*> sources_;
  std::vector<ScalarBits> scalars_;
};

}  // namespace bps
