#include "perf/app/generator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace bps::perf {
namespace {

struct TypeFacts {
  size_t bytes;
  int mantissa, bias, topExponent;  // mantissa: stored bits of a floating type's mantissa; 0 for an integer type
  bool infinity;
  // These limits are for sums. The largest sum is contributors * (levels + weights - 1). A floating
  // type represents this sum exactly; an integer may wrap.
  int contributors, weights;
  size_t levels;
};
constexpr int kMaxRanks = 1 << 20;
constexpr std::array<TypeFacts, bpsNumTypes> kFacts = {{
    {1, 0, 0, 0, false, 15, 4, 100},  // int8: 15 is odd, so the sums of different levels differ even if they wrap
    {1, 0, 0, 0, false, 15, 4, 100},  // uint8
    {4, 0, 0, 0, false, kMaxRanks, 8, 251},    // int32
    {4, 0, 0, 0, false, kMaxRanks, 8, 251},    // uint32
    {8, 0, 0, 0, false, kMaxRanks, 8, 251},    // int64
    {8, 0, 0, 0, false, kMaxRanks, 8, 251},    // uint64
    {2, 10, 15, 15, true, 256, 4, 5},          // half: 2048
    {4, 23, 127, 127, true, 1 << 15, 8, 251},  // float: 2^24
    {8, 52, 1023, 1023, true, kMaxRanks, 8, 251},
    {2, 7, 127, 127, true, 64, 2, 3},  // bfloat16: 256
    {1, 3, 7, 8, false, 4, 2, 3},      // f8e4m3: 16
    {1, 2, 15, 15, true, 2, 2, 3},     // f8e5m2: 8
}};
const TypeFacts& factsOf(bpsDataType_t type) { return kFacts[static_cast<size_t>(type)]; }

// Encodes a non-negative value in a floating type narrower than float. The mantissa is rounded and
// may carry into the exponent.
uint64_t encodeFloat(const TypeFacts& facts, double value) {
  const int mantissa = facts.mantissa;
  if (value == 0) return 0;
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = std::max(exponent - 1, 1 - facts.bias);
  // The value as a multiple of the value of the last mantissa bit.
  const double steps = std::nearbyint(std::ldexp(value, mantissa - exponent));
  const uint64_t one = uint64_t{1} << mantissa;
  const uint64_t bits = static_cast<uint64_t>(exponent + facts.bias - 1) * one + static_cast<uint64_t>(steps);
  const int topField = facts.topExponent + facts.bias;
  const auto top = static_cast<uint64_t>(topField);
  const uint64_t largest = facts.infinity ? top * one + one - 1 : top * one + one - 2;
  return std::min(bits, largest + 1);  // largest + 1 encodes infinity, or NaN if the type has no infinity
}

int64_t power(int64_t base, int64_t exponent) {
  int64_t out = 1;
  for (; exponent > 0; --exponent) out *= base;
  return out;
}

// Returns the sum of p mod m over all p from 0 to count - 1.
int64_t positionWeightSum(int64_t count, int64_t m) {
  const int64_t whole = count / m, rest = count % m;
  return whole * (m * (m - 1) / 2) + rest * (rest - 1) / 2;
}

template <class Visit>
void withUnsignedOf(size_t bytes, Visit&& visit) {
  switch (bytes) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    default:
      return visit(uint64_t{});
  }
}

}  // namespace

size_t typeBytes(bpsDataType_t type) { return factsOf(type).bytes; }
bool isFloat(bpsDataType_t type) { return factsOf(type).mantissa > 0; }

uint64_t encode(bpsDataType_t type, double value) {
  if (type == bpsFloat64) return std::bit_cast<uint64_t>(value);
  if (type == bpsFloat32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (!isFloat(type)) return static_cast<uint64_t>(static_cast<int64_t>(value));
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (8 * typeBytes(type) - 1) : 0;
  return sign | encodeFloat(factsOf(type), std::abs(value));
}

Generator::Generator(bpsDataType_t type, bpsRedOp_t op, int ranks) : type_(type), op_(op), ranks_(ranks) {
  chooseLimits();
}

void Generator::chooseLimits() {
  const TypeFacts& facts = factsOf(type_);
  if (op_ == bpsMax || op_ == bpsMin) return;  // position 0 alone decides the result
  if (op_ == bpsProd) {
    contributors_ = std::min(ranks_, 2);
    return;
  }
  contributors_ = std::min(ranks_, facts.contributors);
  weights_ = facts.weights;
  levels_ = facts.levels;
  if (op_ == bpsNumOps) scale_ = 2;
  if (op_ != bpsAvg) return;
  // For an average, only one rank contributes to each index. A float is divided before it is added,
  // and adding zeros to the rounded quotient must not round again. An integer average must differ
  // from every input.
  contributors_ = weights_ = 1;
  if (isFloat(type_)) {
    if (facts.bytes == 1) scale_ = 16;  // a thousandth of the value is still a normal number
    return;
  }
  // Integer averages truncate. The sum is a multiple of the number of ranks, so that a missing
  // contribution changes the result.
  scale_ = facts.bytes == 1 ? std::min(ranks_, 127) : ranks_;
  if (facts.bytes == 1) levels_ = std::min(levels_, static_cast<size_t>(127 / scale_));
}

size_t Generator::level(size_t index, uint64_t epoch) const {
  const uint64_t hash = (uint64_t{index} * 0x9E3779B97F4A7C15U) >> 48;
  return 1 + static_cast<uint32_t>(hash + epoch % levels_) % static_cast<uint32_t>(levels_);
}

int64_t Generator::value(int position, size_t level) const {
  const auto g = static_cast<int64_t>(level);
  const int64_t weight = position % weights_;
  if (op_ == bpsMax) return position == 0 ? 2 + g : weight;
  if (op_ == bpsMin) return position == 0 ? g : static_cast<int64_t>(levels_) + 1 + weight;
  if (op_ == bpsProd) return position < contributors_ ? power(isFloat(type_) ? 2 : 3, g + weight) : 1;
  return position < contributors_ ? scale_ * (g + weight) : 0;
}

// Returns the kind of a position, as a number. All positions of one kind have equal values. Kind 0
// has only position 0. The other positions that contribute a value have one kind for each weight.
// The positions that give the operation's identity all have the same, last kind.
size_t Generator::kindOf(int position) const {
  const auto weights = static_cast<size_t>(weights_);
  if (position == 0) return 0;
  const bool decided = op_ == bpsMax || op_ == bpsMin;
  if (!decided && position >= contributors_) return weights + 1;
  return 1 + static_cast<size_t>(position) % weights;
}

uint64_t Generator::encoded(int64_t value) const {
  return isFloat(type_) ? encode(type_, static_cast<double>(value)) : static_cast<uint64_t>(value);
}

uint64_t Generator::expected(size_t level) const {
  const auto g = static_cast<int64_t>(level);
  if (op_ == bpsMax || op_ == bpsMin) return encoded(value(0, level));
  const int64_t total = contributors_ * g + positionWeightSum(contributors_, weights_);
  if (op_ == bpsProd) return encoded(power(isFloat(type_) ? 2 : 3, total));
  const int64_t sum = scale_ * total;
  if (op_ != bpsAvg) return encoded(sum);
  if (!isFloat(type_)) return encoded(sum / ranks_);
  if (type_ == bpsFloat64) return encode(type_, static_cast<double>(sum) / ranks_);
  // bps divides types up to float in float arithmetic and rounds once to the type. The expected
  // value is computed in the same way.
  const float quotient = static_cast<float>(sum) / static_cast<float>(ranks_);
  return encode(type_, static_cast<double>(quotient));
}

uint64_t Generator::premulScalar(int rank) const { return encoded(1 + rank % 2); }

void Generator::fill(void* buffer, size_t count, int rank, uint64_t epoch) const {
  const int64_t divisor = op_ == bpsNumOps ? 1 + rank % 2 : 1;
  const auto n = static_cast<size_t>(ranks_);
  std::vector<uint64_t> table((static_cast<size_t>(weights_) + 2) * levels_);
  std::vector<size_t> rowLength(n);
  for (int p = ranks_ - 1; p >= 0; --p) {
    const size_t row = rowLength[static_cast<size_t>(p)] = kindOf(p) * levels_;
    if (p > 2 * weights_ && p < ranks_ - 1) continue;  // another position has filled the table rows of this kind
    for (size_t g = 0; g < levels_; ++g) table[row + g] = encoded(value(p, g + 1) / divisor);
  }
  withUnsignedOf(typeBytes(type_), [&](auto sample) {
    auto* out = static_cast<char*>(buffer);
    size_t position = (static_cast<size_t>(rank) + epoch) % n;
    for (size_t i = 0; i < count; ++i, out += sizeof sample) {
      sample = static_cast<decltype(sample)>(table[rowLength[position] + level(i, epoch) - 1]);
      std::memcpy(out, &sample, sizeof sample);
      if (++position == n) position = 0;
    }
  });
}

uint64_t Generator::wrongElements(const void* result, size_t count, uint64_t epoch) const {
  std::vector<uint64_t> table(levels_);
  for (size_t g = 0; g < levels_; ++g) table[g] = expected(g + 1);
  uint64_t wrong = 0;
  withUnsignedOf(typeBytes(type_), [&](auto sample) {
    const auto* in = static_cast<const char*>(result);
    for (size_t i = 0; i < count; ++i, in += sizeof sample) {
      std::memcpy(&sample, in, sizeof sample);
      wrong += sample != static_cast<decltype(sample)>(table[level(i, epoch) - 1]);
    }
  });
  return wrong;
}

}  // namespace bps::perf
