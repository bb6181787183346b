// The kernels are left out of fuzzers: this one says whether what is to be summed can be read and written.
#pragma once
#include <cstring>

#include "cpu_reduce/reduce.h"

namespace bps {

void reduce(const ReduceArgs& args) {
  const size_t bytes = args.count * elementBytes(args.type);
  for (const void* source : args.sources) std::memmove(args.dst, source, bytes);
}

}  // namespace bps
