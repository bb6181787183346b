#include "tests/support/data.h"

#include <algorithm>
#include <cstring>

#include "cpu_reduce/element.h"

namespace bps::test {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Returns the sign, exponent and mantissa bits of an IEEE-like value whose magnitude is between 1/8
// and 4.
uint64_t floatBits(uint64_t random, int exponentBits, int mantissaBits) {
  const uint64_t bias = (uint64_t{1} << (exponentBits - 1)) - 1;
  const uint64_t exponent = bias - 3 + random % 5;
  const uint64_t mantissa = (random >> 8) & ((uint64_t{1} << mantissaBits) - 1);
  const uint64_t sign = (random >> 7) & 1;
  return (sign << (exponentBits + mantissaBits)) | (exponent << mantissaBits) | mantissa;
}

uint64_t valueBits(DataType type, uint64_t random) {
  switch (type) {
    case DataType::kFloat16:
      return floatBits(random, 5, 10);
    case DataType::kBfloat16:
      return floatBits(random, 8, 7);
    case DataType::kFloat32:
      return floatBits(random, 8, 23);
    case DataType::kFloat64:
      return floatBits(random, 11, 52);
    case DataType::kFloat8e4m3:
      return floatBits(random, 4, 3);
    case DataType::kFloat8e5m2:
      return floatBits(random, 5, 2);
    default:
      return random;
  }
}

// The sum of two of these values overflows, either in float or when the sum is rounded to the type.
const std::vector<uint64_t>& largeValues(DataType type) {
  static const std::vector<uint64_t> half = {0x7bff, 0x78e2, 0x7900, 0x7a53}, bfloat = {0x7e7f, 0x7eff, 0x7eff, 0x7eff},
                                     e4m3 = {0x7e, 0x78, 0x79, 0x7c}, e5m2 = {0x7b, 0x78, 0x79, 0x7a},
                                     single = {0x7f7fffff, 0x7effffff, 0x7e7fffff},
                                     twofold = {0x7fefffffffffffff, 0x7fdfffffffffffff}, integer = {~0ULL, 1ULL << 63};
  switch (type) {
    case DataType::kFloat16:
      return half;
    case DataType::kBfloat16:
      return bfloat;
    case DataType::kFloat8e4m3:
      return e4m3;
    case DataType::kFloat8e5m2:
      return e5m2;
    case DataType::kFloat32:
      return single;
    case DataType::kFloat64:
      return twofold;
    default:
      return integer;
  }
}

// Special values: NaN, infinity (for float8e4m3 its largest value), zero, the least denormal, and
// one.
const std::vector<uint64_t>& specialValues(DataType type) {
  static const std::vector<uint64_t> half = {0x7e01, 0x7c00, 0xfc00, 0, 1, 0x3c00},
                                     bfloat = {0x7fc1, 0x7f80, 0xff80, 0, 1, 0x3f80},
                                     e4m3 = {0x7f, 0x7e, 0xfe, 0, 1, 0x38}, e5m2 = {0x7e, 0x7c, 0xfc, 0, 1, 0x3c},
                                     single = {0x7fc00001, 0x7f800000, 0xff800000, 0, 1, 0x3f800000},
                                     twofold = {0x7ff8000000000001, 0x7ff0000000000000, 0, 1, 0x3ff0000000000000},
                                     integer = {0, 1, 2, 3};
  switch (type) {
    case DataType::kFloat16:
      return half;
    case DataType::kBfloat16:
      return bfloat;
    case DataType::kFloat8e4m3:
      return e4m3;
    case DataType::kFloat8e5m2:
      return e5m2;
    case DataType::kFloat32:
      return single;
    case DataType::kFloat64:
      return twofold;
    default:
      return integer;
  }
}

}  // namespace

Bytes makeInput(DataType type, size_t count, uint64_t rank, uint64_t seed) {
  const size_t size = elementBytes(type);
  Bytes bytes(count * size);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = valueBits(type, mix(mix(seed * 1000 + rank) + i));
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

Bytes makeLargeInput(DataType type, size_t count, uint64_t rank, uint64_t seed) {
  const size_t size = elementBytes(type);
  Bytes bytes = makeInput(type, count, rank, seed);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t random = mix(mix(seed * 1000 + rank) + i), place = mix(seed + i);
    const std::vector<uint64_t>& values = place % 8 == 0 ? specialValues(type) : largeValues(type);
    uint64_t bits = values[random % values.size()];
    if (place % 8 > 4) bits |= uint64_t{1} << (8 * size - 1);  // the sign is the same on all ranks
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

ScalarBits makeScalar(DataType type, uint64_t rank) {
  ScalarBits scalar = 0;
  const uint64_t bits = valueBits(type, mix(rank + 77));
  std::memcpy(&scalar, &bits, elementBytes(type));
  return scalar;
}

namespace {

template <class Acc>
Acc combined(CallOp op, Acc a, Acc b) {
  if (op == CallOp::kProd) return cpu::combine<FoldOp::kProd>(a, b);
  if (op == CallOp::kMax) return cpu::combine<FoldOp::kMax>(a, b);
  if (op == CallOp::kMin) return cpu::combine<FoldOp::kMin>(a, b);
  return cpu::add(a, b);
}

template <class Element>
Bytes referenceSumAs(const Expectation& what, const std::vector<Addend>& addends, bool all) {
  using Acc = typename Element::Acc;
  using Bits = typename Element::Bits;
  constexpr bool kFloat = cpu::kIsFloat<Acc>;
  const bool average = what.op == CallOp::kAvg;
  const auto sums = std::count_if(addends.begin(), addends.end(), [](const Addend& a) { return !a.raw; });
  const bool divideEach = average && kFloat && sums > 0;
  const bool divideSum = average && (kFloat ? sums == 0 : all);
  Bytes out(addends.front().bytes->size());
  for (size_t i = 0; i < out.size() / sizeof(Bits); ++i) {
    Acc acc{};
    for (size_t a = 0; a < addends.size(); ++a) {
      Acc value = Element::widen(cpu::loadBits<Bits>(addends[a].bytes->data(), i));
      const auto scalar = static_cast<Bits>(addends[a].scalar);
      if (addends[a].raw && what.op == CallOp::kPreMulSum) value = cpu::multiply(value, Element::widen(scalar));
      if (addends[a].raw && divideEach) value = cpu::divide(value, what.ranks);
      acc = a == 0 ? value : combined(what.op, acc, value);
    }
    if (divideSum) acc = cpu::divide(acc, what.ranks);
    cpu::storeBits(out.data(), i, Element::round(acc));
  }
  return out;
}

}  // namespace

Bytes referenceSum(const Expectation& what, const std::vector<Addend>& addends, bool all) {
  switch (what.type) {
    case DataType::kInt8:
      return referenceSumAs<cpu::Integer<int8_t>>(what, addends, all);
    case DataType::kUint8:
      return referenceSumAs<cpu::Integer<uint8_t>>(what, addends, all);
    case DataType::kInt32:
      return referenceSumAs<cpu::Integer<int32_t>>(what, addends, all);
    case DataType::kUint32:
      return referenceSumAs<cpu::Integer<uint32_t>>(what, addends, all);
    case DataType::kInt64:
      return referenceSumAs<cpu::Integer<int64_t>>(what, addends, all);
    case DataType::kUint64:
      return referenceSumAs<cpu::Integer<uint64_t>>(what, addends, all);
    case DataType::kFloat16:
      return referenceSumAs<cpu::Float16>(what, addends, all);
    case DataType::kFloat32:
      return referenceSumAs<cpu::Float32>(what, addends, all);
    case DataType::kFloat64:
      return referenceSumAs<cpu::Float64>(what, addends, all);
    case DataType::kBfloat16:
      return referenceSumAs<cpu::Bfloat16>(what, addends, all);
    case DataType::kFloat8e4m3:
      return referenceSumAs<cpu::Float8e4m3>(what, addends, all);
    default:
      return referenceSumAs<cpu::Float8e5m2>(what, addends, all);
  }
}

Bytes expectedWithOrder(const Expectation& what, const SumTree& order, const std::vector<Bytes>& inputs,
                        const std::vector<ScalarBits>& scalars) {
  struct FoldArgs {
    const Expectation& what;
    const std::vector<Bytes>& inputs;
    const std::vector<ScalarBits>& scalars;

    Bytes operator()(const SumTree& ranks, bool all) const {
      std::vector<Bytes> sums(ranks.parts.size());
      std::vector<Addend> addends;
      for (size_t i = 0; i < ranks.parts.size(); ++i) {
        const SumTree* part = &ranks.parts[i];
        while (part->parts.size() == 1) part = &part->parts.front();
        const bool raw = part->parts.empty();
        if (!raw) sums[i] = (*this)(*part, false);
        addends.push_back({raw ? &inputs[part->rank] : &sums[i], raw, raw ? scalars[part->rank] : 0});
      }
      return referenceSum(what, addends, all);
    }
  };
  if (what.ranks == 1 && what.op != CallOp::kPreMulSum) return inputs.front();  // nothing is added
  const SumTree* all = &order;
  while (all->parts.size() == 1 && !all->parts.front().parts.empty()) all = &all->parts.front();
  return FoldArgs{what, inputs, scalars}(*all, true);
}

Bytes expected(const Expectation& what, const std::vector<Bytes>& inputs, const std::vector<ScalarBits>& scalars) {
  SumTree all;
  for (size_t rank = 0; rank < what.ranks; ++rank) {
    if (rank % what.ranksPerMachine == 0) all.parts.emplace_back();
    all.parts.back().parts.push_back({rank, {}});
  }
  return expectedWithOrder(what, all, inputs, scalars);
}

}  // namespace bps::test
