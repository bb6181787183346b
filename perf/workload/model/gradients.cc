#include "perf/workload/model/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_reduce/element.h"

namespace bps::perf {
namespace {

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

constexpr uint64_t kStep = 0x9e3779b97f4a7c15U;

// Returns the seed of one tensor of one rank. Element i uses the i-th random number of this seed.
uint64_t seedOf(int rank, uint64_t tensor) { return mix(mix(static_cast<uint64_t>(rank) + kStep) + tensor * kStep); }

template <class Element>
typename Element::Bits gradient(uint64_t stream, size_t index) {
  using Acc = typename Element::Acc;
  const uint64_t random = mix(stream + (index + 1) * kStep);
  if constexpr (cpu::kIsFloat<Acc>) {
    const double fraction = static_cast<double>(static_cast<int64_t>(random) >> 11) * 0x1p-52;
    return Element::round(static_cast<Acc>(fraction / static_cast<double>(1U << (random & 7))));
  } else {
    return static_cast<typename Element::Bits>(random >> 8);
  }
}

// Calls body with the element class of a type.
template <class Body>
auto withElement(bpsDataType_t type, Body body) {
  switch (type) {
    case bpsInt8:
      return body(cpu::Integer<int8_t>{});
    case bpsUint8:
      return body(cpu::Integer<uint8_t>{});
    case bpsInt32:
      return body(cpu::Integer<int32_t>{});
    case bpsUint32:
      return body(cpu::Integer<uint32_t>{});
    case bpsInt64:
      return body(cpu::Integer<int64_t>{});
    case bpsUint64:
      return body(cpu::Integer<uint64_t>{});
    case bpsFloat16:
      return body(cpu::Float16{});
    case bpsBfloat16:
      return body(cpu::Bfloat16{});
    case bpsFloat64:
      return body(cpu::Float64{});
    case bpsFloat8e4m3:
      return body(cpu::Float8e4m3{});
    case bpsFloat8e5m2:
      return body(cpu::Float8e5m2{});
    default:
      return body(cpu::Float32{});
  }
}

// Compares the result with the same operation in integer arithmetic. This arithmetic is exact,
// including wrapping and truncation.
template <class Element>
bool integerIsCorrect(const Reference& reference, uint64_t tensor, typename Element::Bits result, size_t index) {
  using Acc = typename Element::Acc;
  auto value = [&](int rank) { return Element::widen(gradient<Element>(seedOf(rank, tensor), index)); };
  Acc total = value(0);
  for (int rank = 1; rank < reference.ranks; ++rank) {
    const Acc next = value(rank);
    if (reference.op == bpsMax) total = std::max(total, next);
    else if (reference.op == bpsMin) total = std::min(total, next);
    else if (reference.op == bpsProd) total = cpu::multiply(total, next);
    else total = cpu::add(total, next);
  }
  if (reference.op == bpsAvg) total = cpu::divide(total, static_cast<uint64_t>(reference.ranks));
  return Element::widen(result) == total;
}

struct Folded {
  double value = 0;
  double magnitude = 0;  // the same operation on the magnitudes; errors are relative to this value
};

template <class Element>
Folded fold(const Reference& reference, uint64_t tensor, size_t index) {
  Folded total;
  for (int rank = 0; rank < reference.ranks; ++rank) {
    const double value = Element::widen(gradient<Element>(seedOf(rank, tensor), index));
    if (rank == 0) total = {value, std::abs(value)};
    else if (reference.op == bpsMax) total.value = std::max(total.value, value);
    else if (reference.op == bpsMin) total.value = std::min(total.value, value);
    else if (reference.op == bpsProd) total = {total.value * value, total.magnitude * std::abs(value)};
    else total = {total.value + value, total.magnitude + std::abs(value)};
  }
  if (reference.op == bpsAvg) total = {total.value / reference.ranks, total.magnitude / reference.ranks};
  return total;
}

template <class Element>
bool floatIsCorrect(const Reference& reference, uint64_t tensor, typename Element::Bits result, size_t index) {
  const Precision precision = precisionOf(reference.type);
  const Folded exact = fold<Element>(reference, tensor, index);
  const double value = Element::widen(result);
  if (reference.op == bpsMax || reference.op == bpsMin) return value == exact.value;
  // The factor 2 allows for the roundings of the reference in double, which are as large as bps's
  // own if the type is double.
  const double perMachine = reference.moreRoundings * precision.unit;
  const double folding = (2 * reference.ranks * precision.accumulator + perMachine) * exact.magnitude;
  const double nearest = std::clamp(exact.value, -precision.largest, precision.largest);
  return std::abs(value - nearest) <=
         folding + precision.unit * (std::abs(nearest) + folding) + reference.ranks * precision.least;
}

}  // namespace

Precision precisionOf(bpsDataType_t type) {
  using Double = std::numeric_limits<double>;
  switch (type) {
    case bpsFloat64:
      return {0x1p-53, 0x1p-53, Double::denorm_min(), Double::max()};
    case bpsFloat32:
      return {0x1p-24, 0x1p-24, 0x1p-149, std::numeric_limits<float>::max()};
    case bpsFloat16:
      return {0x1p-11, 0x1p-24, 0x1p-24, 65504};
    case bpsBfloat16:
      return {0x1p-8, 0x1p-24, 0x1p-133, 0x1.fep127};
    case bpsFloat8e4m3:
      return {0x1p-4, 0x1p-24, 0x1p-9, 448};
    case bpsFloat8e5m2:
      return {0x1p-3, 0x1p-24, 0x1p-16, 57344};
    default:
      return {};
  }
}

size_t bytesOf(bpsDataType_t type) { return elementBytes(static_cast<DataType>(type)); }

double asDouble(bpsDataType_t type, const void* base, size_t index) {
  return withElement(type, [&](auto element) {
    using Element = decltype(element);
    return static_cast<double>(Element::widen(cpu::loadBits<typename Element::Bits>(base, index)));
  });
}

void fillGradients(bpsDataType_t type, int rank, uint64_t tensor, std::span<uint8_t> bytes) {
  withElement(type, [&](auto element) {
    using Element = decltype(element);
    using Bits = typename Element::Bits;
    const uint64_t stream = seedOf(rank, tensor);
    for (size_t i = 0; i < bytes.size() / sizeof(Bits); ++i) {
      const Bits bits = gradient<Element>(stream, i);
      std::memcpy(bytes.data() + i * sizeof(Bits), &bits, sizeof bits);
    }
  });
}

bool Reference::isCorrect(uint64_t tensor, const void* result, size_t index) const {
  return withElement(type, [&](auto element) {
    using Element = decltype(element);
    const auto bits = cpu::loadBits<typename Element::Bits>(result, index);
    if constexpr (cpu::kIsFloat<typename Element::Acc>) return floatIsCorrect<Element>(*this, tensor, bits, index);
    else return integerIsCorrect<Element>(*this, tensor, bits, index);
  });
}

uint64_t Reference::countWrongElements(uint64_t tensor, std::span<const uint8_t> result, size_t samples) const {
  const size_t count = result.size() / bytesOf(type);
  if (count == 0) return 0;
  const size_t step = std::max<size_t>(1, count / std::max<size_t>(1, samples));
  uint64_t wrong = 0;
  for (size_t i = 0; i < count; i += step) wrong += isCorrect(tensor, result.data(), i) ? 0 : 1;
  return wrong + (isCorrect(tensor, result.data(), count - 1) ? 0 : 1);
}

}  // namespace bps::perf
