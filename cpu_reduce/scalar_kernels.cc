#include <algorithm>

#include "cpu_reduce/dispatch.h"
#include "cpu_reduce/element.h"

namespace bps::cpu {
namespace {

// The number of elements per block. The accumulators of a block stay in registers and the
// first-level cache. A kernel reads all sources of a block before it writes the block of dst, so
// dst may be one of the sources.
constexpr size_t kBlock = 256;

template <class Element>
void loadBlock(typename Element::Acc* out, const FoldArgs& fold, size_t source, size_t first, size_t n) {
  using Bits = typename Element::Bits;
  for (size_t i = 0; i < n; i++) out[i] = Element::widen(loadBits<Bits>(fold.sources[source], first + i));
  if (fold.scalars != nullptr) {
    typename Element::Acc scalar = loadBits<typename Element::Acc>(&fold.scalars[source], 0);
    for (size_t i = 0; i < n; i++) out[i] = multiply(out[i], scalar);
  }
  if (fold.divisors == nullptr || fold.divisors[source] == 1) return;
  for (size_t i = 0; i < n; i++) out[i] = divide(out[i], fold.divisors[source]);
}

template <class Element, FoldOp kOp>
void scalarKernel(const FoldArgs& fold) {
  using Acc = typename Element::Acc;
  for (size_t done = 0; done < fold.count; done += kBlock) {
    size_t first = fold.begin + done;
    size_t n = std::min(kBlock, fold.count - done);
    Acc acc[kBlock];
    Acc next[kBlock];
    loadBlock<Element>(acc, fold, 0, first, n);
    for (size_t source = 1; source < fold.nSources; source++) {
      loadBlock<Element>(next, fold, source, first, n);
      for (size_t i = 0; i < n; i++) acc[i] = combine<kOp>(acc[i], next[i]);
    }
    if (fold.divisor != 1) {
      for (size_t i = 0; i < n; i++) acc[i] = divide(acc[i], fold.divisor);
    }
    for (size_t i = 0; i < n; i++) storeBits(fold.dst, first + i, Element::round(acc[i]));
  }
}

template <class Element>
void fillRow(Kernel* row) {
  row[static_cast<size_t>(FoldOp::kSum)] = scalarKernel<Element, FoldOp::kSum>;
  row[static_cast<size_t>(FoldOp::kProd)] = scalarKernel<Element, FoldOp::kProd>;
  row[static_cast<size_t>(FoldOp::kMax)] = scalarKernel<Element, FoldOp::kMax>;
  row[static_cast<size_t>(FoldOp::kMin)] = scalarKernel<Element, FoldOp::kMin>;
}

KernelTable makeTable() {
  KernelTable table{.name = "scalar", .kernels = {}};
  auto row = [&](DataType type) { return table.kernels[static_cast<size_t>(type)]; };
  fillRow<Integer<int8_t>>(row(DataType::kInt8));
  fillRow<Integer<uint8_t>>(row(DataType::kUint8));
  fillRow<Integer<int32_t>>(row(DataType::kInt32));
  fillRow<Integer<uint32_t>>(row(DataType::kUint32));
  fillRow<Integer<int64_t>>(row(DataType::kInt64));
  fillRow<Integer<uint64_t>>(row(DataType::kUint64));
  fillRow<Float16>(row(DataType::kFloat16));
  fillRow<Float32>(row(DataType::kFloat32));
  fillRow<Float64>(row(DataType::kFloat64));
  fillRow<Bfloat16>(row(DataType::kBfloat16));
  fillRow<Float8e4m3>(row(DataType::kFloat8e4m3));
  fillRow<Float8e5m2>(row(DataType::kFloat8e5m2));
  return table;
}

}  // namespace

ScalarBits widenedScalar(DataType type, ScalarBits bits) {
  switch (type) {
    case DataType::kFloat16:
      return std::bit_cast<uint32_t>(Float16::widen(static_cast<uint16_t>(bits)));
    case DataType::kBfloat16:
      return std::bit_cast<uint32_t>(Bfloat16::widen(static_cast<uint16_t>(bits)));
    case DataType::kFloat8e4m3:
      return std::bit_cast<uint32_t>(Float8e4m3::widen(static_cast<uint8_t>(bits)));
    case DataType::kFloat8e5m2:
      return std::bit_cast<uint32_t>(Float8e5m2::widen(static_cast<uint8_t>(bits)));
    default:
      return bits;
  }
}

const KernelTable& scalarKernels() {
  static const KernelTable table = makeTable();
  return table;
}

}  // namespace bps::cpu
