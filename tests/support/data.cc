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

Bytes expected(const Expectation& what, const std::vector<Bytes>& inputs, const std::vector<ScalarBits>& scalars) {
  std::vector<Bytes> sums;
  const bool many = what.ranks > what.ranksPerMachine;
  for (size_t first = 0; first < what.ranks; first += what.ranksPerMachine) {
    const size_t end = std::min(first + what.ranksPerMachine, what.ranks);
    if (end - first == 1 && many) {  // alone on its machine: its contribution goes to the owner as it is
      sums.push_back(inputs[first]);
      continue;
    }
    std::vector<Contribution> round;
    for (size_t rank = first; rank < end; ++rank)
      round.push_back({{0, what.count, static_cast<uint8_t>(what.type), static_cast<uint8_t>(what.op),
                        what.op == CallOp::kPreMulSum, scalars[rank]},
                       inputs[rank].data(),
                       inputs[rank].size()});
    sums.emplace_back(inputs[first].size());
    RoundSum(many ? 1 : what.ranks, 1).run(round, sums.back().data());
  }
  if (!many) return sums.front();
  std::vector<Contribution> round;
  for (size_t m = 0; m < sums.size(); ++m) {
    const size_t first = m * what.ranksPerMachine;
    const bool alone = std::min(first + what.ranksPerMachine, what.ranks) - first == 1;
    round.push_back({{0, what.count, static_cast<uint8_t>(what.type), static_cast<uint8_t>(what.op),
                      what.op == CallOp::kPreMulSum && alone, scalars[first]},
                     sums[m].data(),
                     sums[m].size()});
  }
  Bytes out(sums.front().size());
  RoundSum(what.ranks, 1).run(round, out.data());
  return out;
}

}  // namespace bps::test
