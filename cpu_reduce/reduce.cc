#include "cpu_reduce/reduce.h"

#include "cpu_reduce/dispatch.h"

namespace bps {

std::string_view dataTypeName(DataType type) {
  static constexpr std::string_view kNames[kDataTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                          "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view foldOpName(FoldOp op) {
  static constexpr std::string_view kNames[] = {"sum", "prod", "max", "min"};
  return kNames[static_cast<size_t>(op)];
}

void reduce(const ReduceArgs& args) {
  cpu::Fold fold{.dst = args.dst,
                 .sources = args.sources.data(),
                 .nSources = args.sources.size(),
                 .begin = 0,
                 .count = args.count,
                 .scalars = args.scalars.empty() ? nullptr : args.scalars.data(),
                 .divisor = args.divisor,
                 .stream = false};
  cpu::currentKernels().kernels[static_cast<size_t>(args.type)][static_cast<size_t>(args.op)](fold);
}

std::string_view reduceTarget() { return cpu::currentKernels().name; }

}  // namespace bps
