// The kernel for GPUs. `make ptx` compiles this file to sum_kernel.ptx, which the library contains as text.
// The standard headers come first, because their functions do not compile for a GPU.
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu_reduce/reduce.h"
#pragma clang force_cuda_host_device begin
#include "src/cuda/sum/sum_kernel.h"
#pragma clang force_cuda_host_device end

extern "C" __attribute__((global)) void bps_sum_in_rank_order(const bps::cuda::SumArguments sum) {
  const uint64_t blockThreads = __nvvm_read_ptx_sreg_ntid_x();
  const uint64_t first = __nvvm_read_ptx_sreg_ctaid_x() * blockThreads + __nvvm_read_ptx_sreg_tid_x();
  bps::cuda::sumInRankOrder(sum, first, __nvvm_read_ptx_sreg_nctaid_x() * blockThreads);
}
