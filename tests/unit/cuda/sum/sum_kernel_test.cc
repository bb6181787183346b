// Compares the arithmetic of the GPU's kernel with cpu_reduce, which sums on the host: every bit must be equal.
#include "src/cuda/sum/sum_kernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace bps::cuda {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat16,  DataType::kFloat32,    DataType::kFloat64,
                               DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2};
constexpr FoldOp kOps[] = {FoldOp::kSum, FoldOp::kProd, FoldOp::kMax, FoldOp::kMin};

// Contributions with random bits, which include subnormals. Every third element has one of the exponents that are all
// ones or all zeros, so NaNs, infinities and zeros of both signs meet each other and ordinary values.
std::vector<uint8_t> contribution(DataType type, size_t count, uint32_t seed) {
  const size_t bytes = elementBytes(type);
  std::vector<uint8_t> data(count * bytes);
  std::mt19937 random(seed);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  for (size_t i = 0; i < count; i += 3) {
    uint8_t* element = data.data() + i * bytes;
    const uint8_t top[] = {0x00, 0x80, 0x7f, 0xff, 0x7c, 0xfc, 0x3f, 0xbf};
    element[bytes - 1] = top[random() % 8];
    if (bytes > 1 && random() % 2 == 0) std::memset(element, 0, bytes - 2);
    if (bytes > 1) element[bytes - 2] = random() % 2 == 0 ? 0 : static_cast<uint8_t>(random() % 4 == 0 ? 0xf0 : 0x80);
  }
  return data;
}

// The kernel as a grid of threads carries it out, in place, on a rank with `place` ranks before it.
std::vector<uint8_t> byKernel(const std::vector<std::vector<uint8_t>>& all, size_t place, DataType type, FoldOp op) {
  constexpr size_t kStride = 8192, kThreads = 7;
  std::vector<uint8_t> target = all[place], received(all.size() * kStride);
  for (size_t rank = 0, slot = 0; rank < all.size(); ++rank)
    if (rank != place) std::memcpy(received.data() + kStride * slot++, all[rank].data(), all[rank].size());
  const SumArguments sum{target.data(),
                         target.data(),
                         received.data(),
                         kStride,
                         target.size() / elementBytes(type),
                         static_cast<uint32_t>(all.size()),
                         static_cast<uint32_t>(place),
                         static_cast<uint32_t>(type),
                         static_cast<uint32_t>(op)};
  for (size_t thread = 0; thread < kThreads; ++thread) sumInRankOrder(sum, thread, kThreads);
  return target;
}

TEST(SumKernel, HasTheBitsOfTheHostForAllTypesAndOperations) {
  constexpr size_t kCount = 1000;
  for (const DataType type : kTypes)
    for (const FoldOp op : kOps)
      for (size_t ranks = 2; ranks <= 8; ranks += 3) {
        std::vector<std::vector<uint8_t>> all;
        std::vector<const void*> sources;
        for (size_t rank = 0; rank < ranks; ++rank)
          all.push_back(contribution(type, kCount, static_cast<uint32_t>(rank + 100 * ranks)));
        for (const auto& one : all) sources.push_back(one.data());
        std::vector<uint8_t> expected(all[0].size());
        ReduceArgs args;
        args.dst = expected.data();
        args.sources = sources;
        args.count = kCount;
        args.type = type;
        args.op = op;
        reduce(args);
        for (const size_t place : {size_t{0}, ranks / 2, ranks - 1})
          EXPECT_EQ(byKernel(all, place, type, op), expected)
              << dataTypeName(type) << " " << foldOpName(op) << ", " << ranks << " ranks, place " << place;
      }
}

TEST(SumKernel, LeavesIntegersAlone) {
  std::vector<std::vector<uint8_t>> all(2, std::vector<uint8_t>(64, 1));
  EXPECT_EQ(byKernel(all, 0, DataType::kInt32, FoldOp::kSum), all[0]);
}

}  // namespace
}  // namespace bps::cuda
