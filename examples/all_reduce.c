/*
 * The smallest whole program: every rank contributes its number, all get the sum.
 *
 *   cc -Iinclude examples/all_reduce.c -o all_reduce -Lbuild/lib -lbps -Wl,-rpath,$PWD/build/lib
 *   build/bin/bps-run -n 3 -s 2 -v -- ./all_reduce
 *
 * bps-run sets BPS_ROOT, so every rank can make the unique id by itself. Without it, rank 0 makes one and sends its 128
 * bytes to the others by any means.
 */
#include <bps/bps.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 20 };

static void check(bpsResult_t result, bpsComm_t comm, const char* what) {
  if (result == bpsSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, bpsGetErrorString(result), bpsGetLastError(comm));
  exit(1);
}

static int numberFrom(const char* variable) {
  const char* text = getenv(variable);
  if (text == NULL) {
    fprintf(stderr, "%s is not set: start this program with bps-run\n", variable);
    exit(1);
  }
  return atoi(text);
}

int main(void) {
  const int rank = numberFrom("BPS_RANK"), ranks = numberFrom("BPS_NRANKS");

  bpsUniqueId id;
  bpsComm_t comm = NULL;
  check(bpsGetUniqueId(&id), NULL, "bpsGetUniqueId");
  check(bpsCommInitRank(&comm, ranks, id, rank), NULL, "bpsCommInitRank");

  float *send = NULL, *recv = NULL;
  check(bpsMemAlloc((void**)&send, COUNT * sizeof *send), comm, "bpsMemAlloc");
  check(bpsMemAlloc((void**)&recv, COUNT * sizeof *recv), comm, "bpsMemAlloc");
  for (int i = 0; i < COUNT; ++i) send[i] = (float)(rank + 1);

  check(bpsAllReduce(send, recv, COUNT, bpsFloat32, bpsSum, comm, NULL), comm, "bpsAllReduce");
  check(bpsHostStreamSynchronize(NULL), comm, "bpsHostStreamSynchronize");

  const float want = (float)(ranks * (ranks + 1) / 2);
  int wrong = 0;
  for (int i = 0; i < COUNT; ++i) wrong += recv[i] != want;
  printf("rank %d of %d: sum %g, %d wrong of %d\n", rank, ranks, (double)recv[0], wrong, COUNT);

  check(bpsCommDestroy(comm), NULL, "bpsCommDestroy");
  bpsMemFree(send);
  bpsMemFree(recv);
  return wrong != 0;
}
