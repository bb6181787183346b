/*
 * A program written for NCCL, on host memory: <bps/nccl_compat.h> in place of <nccl.h>. Its ranks come from the
 * launcher (see all_reduce.c); a program that makes and sends an ncclUniqueId keeps its ncclCommInitRank().
 *
 *   cc -Iinclude examples/all_reduce_nccl.c -o all_reduce_nccl -Lbuild/lib -lbps -Wl,-rpath,$PWD/build/lib
 *   build/bin/bps-run -n 3 -s 2 -v -- ./all_reduce_nccl
 */
#include <bps/nccl_compat.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 20 };

#define CHECK(call)                                                                               \
  do {                                                                                            \
    ncclResult_t result = (call);                                                                 \
    if (result != ncclSuccess) {                                                                  \
      fprintf(stderr, "%s: %s: %s\n", #call, ncclGetErrorString(result), ncclGetLastError(NULL)); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

int main(void) {
  ncclComm_t comm;
  int rank = 0, ranks = 0;
  CHECK(bpsCommInitFromEnv(&comm));
  CHECK(ncclCommUserRank(comm, &rank));
  CHECK(ncclCommCount(comm, &ranks));

  float* data;
  CHECK(ncclMemAlloc((void**)&data, COUNT * sizeof *data));
  for (int i = 0; i < COUNT; ++i) data[i] = (float)(rank + 1);
  CHECK(ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, NULL));
  CHECK(ncclCommFinalize(comm)); /* host memory has no CUDA stream to wait for: this completes all calls */

  printf("rank %d of %d: sum %g\n", rank, ranks, (double)data[COUNT - 1]);
  const int wrong = data[COUNT - 1] != (float)(ranks * (ranks + 1) / 2);
  CHECK(ncclMemFree(data));
  CHECK(ncclCommDestroy(comm));
  return wrong;
}
