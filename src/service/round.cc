#include "src/service/round.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {

ScalarBits scalarOne(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x3c00;
    case DataType::kBfloat16:
      return 0x3f80;
    case DataType::kFloat32:
      return 0x3f800000;
    case DataType::kFloat64:
      return 0x3ff0000000000000;
    case DataType::kFloat8e4m3:
      return 0x38;
    case DataType::kFloat8e5m2:
      return 0x3c;
    default:
      return 1;
  }
}

Status checkRound(const std::vector<Contribution>& round, const std::function<std::string(size_t)>& nameOf) {
  const Contribution& first = round.front();
  for (size_t m = 1; m < round.size(); ++m) {
    const Contribution& other = round[m];
    if (!other.call.sameCall(first.call)) {
      const auto [firstText, otherText] = describeDifference(first.call, other.call);
      return failure(Code::kInvalidUsage, "ranks disagree: {} called {}, but {} called {}", nameOf(0), firstText,
                     nameOf(m), otherText);
    }
    if (other.bytes != first.bytes)
      return failure(Code::kInternal, "{} pushed {} bytes of {}, but {} pushed {}", nameOf(0), first.bytes,
                     describe(first.call), nameOf(m), other.bytes);
  }
  return {};
}

void RoundSum::divide(const std::vector<Contribution>& round, ReduceArgs& args) {
  if (args.type < DataType::kFloat16) {
    if (coverage_ == Coverage::kAllRanks) args.divisor = ranks_;
    return;
  }
  const auto sums = std::count_if(round.begin(), round.end(), [](const Contribution& c) { return c.summed; });
  if (sums == 0) args.divisor = ranks_;
  if (sums == 0 || sums == std::ssize(round)) return;
  divisors_.clear();
  for (const Contribution& c : round) divisors_.push_back(c.summed ? 1 : ranks_);
  args.divisors = divisors_;
}

void RoundSum::run(const std::vector<Contribution>& round, void* target) {
  const Contribution& first = round.front();
  const auto type = static_cast<DataType>(first.call.type);
  const auto op = static_cast<CallOp>(first.call.op);
  const bool scaled = std::any_of(round.begin(), round.end(), [](const Contribution& c) { return c.call.hasScalar; });
  sources_.clear();
  scalars_.clear();
  for (const Contribution& c : round) {
    sources_.push_back(c.data);
    if (scaled) scalars_.push_back(c.call.hasScalar ? c.call.scalar : scalarOne(type));
  }
  ReduceArgs args;
  args.dst = target;
  args.sources = sources_;
  args.count = first.bytes / elementBytes(type);
  args.type = type;
  args.op = op == CallOp::kAvg || op == CallOp::kPreMulSum ? FoldOp::kSum : static_cast<FoldOp>(op);
  args.scalars = scalars_;
  if (op == CallOp::kAvg) divide(round, args);
  args.threads = threads_;
  if (args.count > 0) reduce(args);
}

}  // namespace bps
