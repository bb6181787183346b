// Helpers for the tests of cpu_reduce: input values that expose errors, and a list of the targets of this CPU.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpu_reduce/dispatch.h"
#include "cpu_reduce/element.h"
#include "cpu_reduce/reduce.h"

namespace bps::test {

using ByteVector = std::vector<unsigned char>;

inline constexpr FoldOp kFoldOps[] = {FoldOp::kSum, FoldOp::kProd, FoldOp::kMax, FoldOp::kMin};

inline bool longTests() {
  const char* text = std::getenv("BPS_TEST_LONG");
  return text != nullptr && *text != '\0';
}

inline std::vector<DataType> allTypes() {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypes; i++) types.push_back(static_cast<DataType>(i));
  return types;
}

// Selects the target `name` for the lifetime of this object.
class ForcedTarget {
 public:
  explicit ForcedTarget(std::string_view name) { EXPECT_TRUE(cpu::chooseTarget(name).ok()); }
  ~ForcedTarget() { EXPECT_TRUE(cpu::chooseTarget("").ok()); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
};

// Returns special values of the type: quiet and signalling NaNs of both signs, infinities, zeros, denormals, the least
// normal, one, the largest values, and the extremes of integers. Each value is in the low bytes, as in ScalarBits.
inline std::vector<uint64_t> specialValues(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {0x7e00, 0xfe01, 0x7c01, 0xfdff, 0x7c00, 0xfc00, 0,      0x8000, 1,
              0x8001, 0x3ff,  0x83ff, 0x400,  0x3c00, 0xbc00, 0x7bff, 0xfbff};
    case DataType::kBfloat16:
      return {0x7fc0, 0xffc1, 0x7f81, 0xffbf, 0x7f80, 0xff80, 0,      0x8000, 1,
              0x8001, 0x7f,   0x807f, 0x80,   0x3f80, 0xbf80, 0x7f7f, 0xff7f};
    case DataType::kFloat8e4m3:
      return {0x7f, 0xff, 0, 0x80, 1, 0x81, 7, 8, 0x38, 0xb8, 0x7e, 0xfe};
    case DataType::kFloat8e5m2:
      return {0x7d, 0xfe, 0x7f, 0xff, 0x7c, 0xfc, 0, 0x80, 1, 0x81, 3, 4, 0x3c, 0xbc, 0x7b, 0xfb};
    case DataType::kFloat32:
      return {0x7fc00000, 0xffc00001, 0x7f800001, 0xff812345, 0x7f800000, 0xff800000, 0,          0x80000000, 1,
              0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff};
    case DataType::kFloat64:
      return {0x7ff8000000000000,
              0xfff8000000000001,
              0x7ff0000000000001,
              0xfff4000000000000,
              0x7ff0000000000000,
              0xfff0000000000000,
              0,
              0x8000000000000000,
              1,
              0x8000000000000001,
              0x000fffffffffffff,
              0x0010000000000000,
              0x3ff0000000000000,
              0xbff0000000000000,
              0x7fefffffffffffff,
              0xffefffffffffffff};
    default:
      return {0, 1, ~uint64_t{0}, 0x7f, 0x80, 0x7fffffff, 0x80000000, 0x7fffffffffffffff, 0x8000000000000000, 3};
  }
}

// Returns a random value. A float is between -4 and 4, because additions in that range round. An integer is any number.
inline uint64_t moderateValue(DataType type, std::mt19937_64& random) {
  float value = static_cast<float>(static_cast<int64_t>(random() % 2000001) - 1000000) / 250000.0F;
  switch (type) {
    case DataType::kFloat16:
      return cpu::Float16::round(value);
    case DataType::kBfloat16:
      return cpu::Bfloat16::round(value);
    case DataType::kFloat8e4m3:
      return cpu::Float8e4m3::round(value);
    case DataType::kFloat8e5m2:
      return cpu::Float8e5m2::round(value);
    case DataType::kFloat32:
      return std::bit_cast<uint32_t>(value);
    case DataType::kFloat64:
      return std::bit_cast<uint64_t>(static_cast<double>(value) / 3);
    default:
      return random();
  }
}

inline uint64_t anyValue(DataType type, std::mt19937_64& random) {
  static const std::vector<std::vector<uint64_t>> special = [] {
    std::vector<std::vector<uint64_t>> lists;
    for (DataType each : allTypes()) lists.push_back(specialValues(each));
    return lists;
  }();
  const std::vector<uint64_t>& list = special[static_cast<size_t>(type)];
  uint64_t dice = random() % 8;
  if (dice == 0) return list[random() % list.size()];
  return dice < 3 ? random() : moderateValue(type, random);
}

inline void fill(void* to, size_t count, DataType type, std::mt19937_64& random) {
  size_t size = elementBytes(type);
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = anyValue(type, random);
    std::memcpy(static_cast<char*>(to) + i * size, &bits, size);
  }
}

// Returns the result of the scalar kernels for `args`. Ignores `args.dst` and `args.threads`.
inline ByteVector oracle(ReduceArgs args) {
  ForcedTarget scalar("scalar");
  ByteVector result(args.count * elementBytes(args.type) + 1);
  args.dst = result.data();
  args.threads = 1;
  reduce(args);
  result.pop_back();
  return result;
}

// Returns a text that describes the first difference, or "" if the buffers are equal.
inline std::string difference(const void* got, const ByteVector& want, DataType type) {
  if (want.empty() || std::memcmp(got, want.data(), want.size()) == 0) return "";
  size_t size = elementBytes(type);
  for (size_t i = 0; i < want.size() / size; i++) {
    uint64_t a = 0, b = 0;
    std::memcpy(&a, static_cast<const char*>(got) + i * size, size);
    std::memcpy(&b, want.data() + i * size, size);
    char text[100];
    std::snprintf(text, sizeof(text), "element %zu is %#llx, the oracle says %#llx", i,
                  static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
    if (a != b) return text;
  }
  return "";
}

}  // namespace bps::test
