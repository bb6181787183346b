#include "cpu_reduce/reduce.h"

#include <gtest/gtest.h>

#include "cpu_reduce/float_environment.h"
#include "tests/unit/cpu_reduce/inputs.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace bps::test {
namespace {

template <class Element>
uint32_t foldBits(std::vector<float> values, ReduceArgs args) {
  using Bits = typename Element::Bits;
  std::vector<Bits> bits;
  std::vector<const void*> sources;
  for (float value : values) bits.push_back(Element::round(value));
  for (Bits& each : bits) sources.push_back(&each);
  Bits result = 0;
  args.dst = &result;
  args.sources = sources;
  args.count = 1;
  reduce(args);
  return result;
}

TEST(Reduce, RoundsOnceAtTheEnd) {
  // In float16, 2048 + 1 is a tie that rounds to 2048. If every addition rounded, the sum would remain 2048.
  EXPECT_EQ(foldBits<cpu::Float16>({2048, 1, 1}, {.type = DataType::kFloat16}), cpu::Float16::round(2050));
  EXPECT_EQ(foldBits<cpu::Bfloat16>({256, 1, 1}, {.type = DataType::kBfloat16}), cpu::Bfloat16::round(258));
  EXPECT_EQ(foldBits<cpu::Float8e4m3>({16, 1, 1}, {.type = DataType::kFloat8e4m3}), cpu::Float8e4m3::round(18));
  EXPECT_EQ(foldBits<cpu::Float8e4m3>({448, 448, -448}, {.type = DataType::kFloat8e4m3}), 0x7eU);
}

TEST(Reduce, FoldsInRankOrder) {
  EXPECT_EQ(foldBits<cpu::Float32>({0x1p24F, 1, 1, 0}, {}), std::bit_cast<uint32_t>(0x1p24F));
  EXPECT_EQ(foldBits<cpu::Float32>({1, 1, 0x1p24F, 0}, {}), std::bit_cast<uint32_t>(0x1p24F + 2));
}

TEST(Reduce, AverageDividesBeforeRounding) {
  // The sums exceed the largest values of float16 and float8, but the averages do not.
  EXPECT_EQ(foldBits<cpu::Float16>({60000, 60000}, {.type = DataType::kFloat16, .divisor = 2}),
            cpu::Float16::round(60000));
  EXPECT_EQ(foldBits<cpu::Float8e4m3>({448, 384}, {.type = DataType::kFloat8e4m3, .divisor = 2}),
            cpu::Float8e4m3::round(416));
}

TEST(Reduce, ScalarsMultiplyBeforeRounding) {
  std::vector<ScalarBits> half(2, cpu::Float16::round(0.5F));
  EXPECT_EQ(foldBits<cpu::Float16>({60000, 60000}, {.type = DataType::kFloat16, .scalars = half}),
            cpu::Float16::round(60000));
}

TEST(Reduce, ManyThreadsGiveTheSameBits) {
  std::mt19937_64 random(7);
  size_t count = 700001;
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat64}) {
    std::vector<ByteVector> data(3, ByteVector(count * elementBytes(type)));
    std::vector<const void*> sources;
    for (ByteVector& each : data) {
      fill(each.data(), count, type, random);
      sources.push_back(each.data());
    }
    ReduceArgs args{.sources = sources, .count = count, .type = type};
    ByteVector want = oracle(args);
    for (int threads : {1, 2, 3, 5}) {
      ByteVector got(want.size());
      args.dst = got.data();
      args.threads = threads;
      reduce(args);
      ASSERT_EQ(difference(got.data(), want, type), "") << threads << " threads";
    }
  }
}

#ifdef _OPENMP
TEST(Reduce, DoesNotChangeOpenMpSettings) {
  omp_set_num_threads(3);
  std::vector<float> a(1 << 20, 1.0F), b(1 << 20, 2.0F), out(1 << 20);
  const void* sources[] = {a.data(), b.data()};
  reduce({.dst = out.data(), .sources = sources, .count = out.size(), .threads = 2});
  EXPECT_EQ(omp_get_max_threads(), 3);
  EXPECT_EQ(out.back(), 3.0F);
}
#endif

TEST(Reduce, SumsBuffersLargerThanTheCache) {
  size_t count = (size_t{8} << 20) + 5;
  std::vector<uint8_t> a(count, 0x38), b(count, 0x38), out(count);
  const void* sources[] = {a.data(), b.data()};
  reduce({.dst = out.data(), .sources = sources, .count = count, .type = DataType::kFloat8e4m3, .rereadSoon = false});
  EXPECT_EQ(std::count(out.begin(), out.end(), 0x40), static_cast<ptrdiff_t>(count));
}

TEST(Reduce, DstMayBeAnySource) {
  std::mt19937_64 random(8);
  for (const cpu::KernelTable* table : cpu::supportedTargets()) {
    for (DataType type : allTypes()) {
      for (size_t same = 0; same < 3; same++) {
        std::vector<ByteVector> data(3, ByteVector(1000 * elementBytes(type)));
        std::vector<const void*> sources;
        for (ByteVector& each : data) {
          fill(each.data(), 1000, type, random);
          sources.push_back(each.data());
        }
        ReduceArgs args{.dst = data[same].data(), .sources = sources, .count = 1000, .type = type, .rereadSoon = false};
        ByteVector want = oracle(args);
        ForcedTarget forced(table->name);
        reduce(args);
        ASSERT_EQ(difference(data[same].data(), want, type), "") << table->name << ", in place of source " << same;
      }
    }
  }
}

#if defined(__x86_64__)
TEST(Reduce, IgnoresAndPreservesTheCallersFloatModes) {
  uint32_t denormal = 1;
  const void* sources[] = {&denormal, &denormal};
  for (const cpu::KernelTable* table : cpu::supportedTargets()) {
    ForcedTarget forced(table->name);
    unsigned before = _mm_getcsr();
    unsigned odd = 0x1f80 | 0x8000 | 0x0040 | 0x4000;  // sets flush-to-zero, denormals-are-zero and rounding up
    _mm_setcsr(odd);
    uint32_t sum = 0;
    reduce({.dst = &sum, .sources = sources, .count = 1});
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(sum, 2U);
    EXPECT_EQ(after, odd);
  }
}
#endif

TEST(Dispatch, EveryTargetCanBeForcedAndHasAllKernels) {
  for (const cpu::KernelTable* table : cpu::supportedTargets()) {
    ForcedTarget forced(table->name);
    EXPECT_EQ(reduceTarget(), table->name);
    for (const auto& row : table->kernels) {
      for (cpu::Kernel kernel : row) EXPECT_NE(kernel, nullptr) << table->name;
    }
  }
  EXPECT_EQ(reduceTarget(), cpu::supportedTargets().front()->name);
  EXPECT_EQ(cpu::supportedTargets().back()->name, "scalar");
}

TEST(Dispatch, UnknownNamesAreRefusedAndChangeNothing) {
  ForcedTarget forced("scalar");
  EXPECT_EQ(cpu::chooseTarget("avx9").code(), Code::kInvalidArgument);
#if defined(__x86_64__)
  EXPECT_EQ(cpu::chooseTarget("neon").code(), Code::kInvalidArgument);
#endif
  EXPECT_EQ(reduceTarget(), "scalar");
}

TEST(Dispatch, DescribesCurrentAndSupportedTargets) {
  std::string all;
  for (const cpu::KernelTable* table : cpu::supportedTargets()) all += std::string(table->name) + ", ";
  all.resize(all.size() - 2);
  for (const cpu::KernelTable* table : cpu::supportedTargets()) {
    ForcedTarget forced(table->name);
    EXPECT_EQ(cpu::describeKernels(), std::string(table->name) + " (of " + all + ")");
  }
}

TEST(Dispatch, TypeNamesMatchNcclTests) {
  EXPECT_EQ(dataTypeName(DataType::kFloat16), "half");
  EXPECT_EQ(dataTypeName(DataType::kFloat8e5m2), "f8e5m2");
  EXPECT_EQ(foldOpName(FoldOp::kMin), "min");
}

}  // namespace
}  // namespace bps::test
