/*
 * A program written for NCCL, on host memory: <bps/nccl_compat.h> in place of <nccl.h>, and nothing else changed.
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
  const char *rankText = getenv("BPS_RANK"), *ranksText = getenv("BPS_NRANKS");
  if (rankText == NULL || ranksText == NULL) {
    fprintf(stderr, "start this program with bps-run\n");
    return 1;
  }
  const int rank = atoi(rankText), ranks = atoi(ranksText);

  ncclUniqueId id;
  ncclComm_t comm;
  CHECK(ncclGetUniqueId(&id)); /* with bps-run every rank may make it; else rank 0 sends it to the others */
  CHECK(ncclCommInitRank(&comm, ranks, id, rank));

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
