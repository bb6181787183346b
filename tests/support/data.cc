#include "tests/support/data.h"

#include <algorithm>
#include <cstring>

#include "src/service/round.h"

namespace bps::test {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Sign, exponent and mantissa bits of an IEEE-like value between about 1/8 and 4.
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

ScalarBits makeScalar(DataType type, uint64_t rank) {
  ScalarBits scalar = 0;
  const uint64_t bits = valueBits(type, mix(rank + 77));
  std::memcpy(&scalar, &bits, elementBytes(type));
  return scalar;
}

namespace {

// A sum, or the contribution of a rank that has nobody beside it: such a one is only scaled where it is added.
struct Addend {
  const Bytes* bytes;
  bool raw;
  ScalarBits scalar;
};

Bytes addUp(const Expectation& what, const std::vector<Addend>& addends, uint64_t divisor) {
  std::vector<Contribution> round;
  for (const Addend& each : addends)
    round.push_back({{0, what.count, static_cast<uint8_t>(what.type), static_cast<uint8_t>(what.op),
                      what.op == CallOp::kPreMulSum && each.raw, each.scalar},
                     each.bytes->data(),
                     each.bytes->size()});
  Bytes sum(addends.front().bytes->size());
  RoundSum(divisor, 1).run(round, sum.data());
  return sum;
}

}  // namespace

Bytes expectedOf(const Expectation& what, const Ranks& order, const std::vector<Bytes>& inputs,
                 const std::vector<ScalarBits>& scalars) {
  struct Fold {
    const Expectation& what;
    const std::vector<Bytes>& inputs;
    const std::vector<ScalarBits>& scalars;

    Bytes operator()(const Ranks& ranks, uint64_t divisor) const {
      std::vector<Bytes> sums(ranks.parts.size());
      std::vector<Addend> addends;
      for (size_t i = 0; i < ranks.parts.size(); ++i) {
        const Ranks* part = &ranks.parts[i];
        while (part->parts.size() == 1) part = &part->parts.front();
        const bool raw = part->parts.empty();
        if (!raw) sums[i] = (*this)(*part, 1);
        addends.push_back({raw ? &inputs[part->rank] : &sums[i], raw, raw ? scalars[part->rank] : 0});
      }
      return addUp(what, addends, divisor);
    }
  };
  const Ranks* all = &order;
  while (all->parts.size() == 1 && !all->parts.front().parts.empty()) all = &all->parts.front();
  return Fold{what, inputs, scalars}(*all, what.ranks);
}

Bytes expected(const Expectation& what, const std::vector<Bytes>& inputs, const std::vector<ScalarBits>& scalars) {
  Ranks all;
  for (size_t rank = 0; rank < what.ranks; ++rank) {
    if (rank % what.ranksPerMachine == 0) all.parts.emplace_back();
    all.parts.back().parts.push_back({rank, {}});
  }
  return expectedOf(what, all, inputs, scalars);
}

}  // namespace bps::test
