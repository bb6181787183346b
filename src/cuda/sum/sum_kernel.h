// The kernel with which a GPU combines the contributions of the ranks of its local GPU group. The kernel combines in
// rank order and rounds once, so its result has the same bits as cpu_reduce's.
//
// The arithmetic is that of cpu_reduce/element.h. It is compiled for the GPU (sum_kernel.cu), for the fake CUDA driver
// of the tests, and for the test that compares it with cpu_reduce.
#pragma once
#include <cstdint>

#include "cpu_reduce/element.h"

namespace bps::cuda {

inline constexpr char kSumKernelName[] = "bps_sum_in_rank_order";

// The parameter of the kernel. All buffers are memory that the GPU can access, aligned to the size of an element.
struct SumArguments {
  void* target;          // may be `own`, and overlaps no other contribution
  const void* own;       // the contribution of the rank that runs the kernel
  const void* received;  // the contributions of all other ranks, in rank order
  uint64_t strideBytes;  // from a received contribution to the next
  uint64_t count;        // elements
  uint32_t ranks;
  uint32_t place;  // the number of ranks before this rank
  uint32_t type;   // a floating type of DataType. The kernel does nothing for an integer type.
  uint32_t op;     // FoldOp
};
static_assert(sizeof(SumArguments) == 56);

template <class Element>
typename Element::Acc contributionOf(const SumArguments& sum, uint32_t rank, uint64_t index) {
  using Bits = typename Element::Bits;
  if (rank == sum.place) return Element::widen(static_cast<const Bits*>(sum.own)[index]);
  const uint64_t before = rank < sum.place ? rank : rank - 1;
  const auto* contribution = static_cast<const uint8_t*>(sum.received) + before * sum.strideBytes;
  return Element::widen(reinterpret_cast<const Bits*>(contribution)[index]);
}

template <class Element, FoldOp kOp>
void combineElements(const SumArguments& sum, uint64_t first, uint64_t step) {
  using Bits = typename Element::Bits;
  for (uint64_t index = first; index < sum.count; index += step) {
    typename Element::Acc folded = contributionOf<Element>(sum, 0, index);
    for (uint32_t rank = 1; rank < sum.ranks; ++rank)
      folded = cpu::combine<kOp>(folded, contributionOf<Element>(sum, rank, index));
    static_cast<Bits*>(sum.target)[index] = Element::round(folded);
  }
}

template <class Element>
void combineType(const SumArguments& sum, uint64_t first, uint64_t step) {
  switch (static_cast<FoldOp>(sum.op)) {
    case FoldOp::kSum:
      return combineElements<Element, FoldOp::kSum>(sum, first, step);
    case FoldOp::kProd:
      return combineElements<Element, FoldOp::kProd>(sum, first, step);
    case FoldOp::kMax:
      return combineElements<Element, FoldOp::kMax>(sum, first, step);
    case FoldOp::kMin:
      return combineElements<Element, FoldOp::kMin>(sum, first, step);
  }
}

// Combines the elements first, first + step, first + 2 * step and so on. Each thread of the kernel has its own `first`.
inline void sumInRankOrder(const SumArguments& sum, uint64_t first, uint64_t step) {
  switch (static_cast<DataType>(sum.type)) {
    case DataType::kFloat16:
      return combineType<cpu::Float16>(sum, first, step);
    case DataType::kFloat32:
      return combineType<cpu::Float32>(sum, first, step);
    case DataType::kFloat64:
      return combineType<cpu::Float64>(sum, first, step);
    case DataType::kBfloat16:
      return combineType<cpu::Bfloat16>(sum, first, step);
    case DataType::kFloat8e4m3:
      return combineType<cpu::Float8e4m3>(sum, first, step);
    case DataType::kFloat8e5m2:
      return combineType<cpu::Float8e5m2>(sum, first, step);
    default:
      return;
  }
}

}  // namespace bps::cuda
