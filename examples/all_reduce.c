/*
 * The smallest whole program: every rank contributes its number, all get the sum.
 *
 *   cc -Iinclude examples/all_reduce.c -o all_reduce -Lbuild/lib -lbps -Wl,-rpath,$PWD/build/lib
 *   build/bin/bps-run -n 3 -s 2 -v -- ./all_reduce
 *
 * On several machines, with a launcher:
 *
 *   build/bin/bps-server --make-key $HOME/bps.key; export BPS_KEY_FILE=$HOME/bps.key BPS_ROOT=$FIRST:7701
 *   mpirun -x BPS_ROOT -x BPS_KEY_FILE -np 3 ./all_reduce                      # or srun -n 3 ./all_reduce
 *   torchrun --no-python --nnodes 3 --rdzv-backend c10d --rdzv-endpoint $FIRST:29500 ./all_reduce
 *
 * bpsCommInitFromEnv() finds rank and size as the launcher gives them. A program that has a way of its own to tell
 * ranks apart lets rank 0 call bpsGetUniqueId(), sends the 128 bytes to the others, and all call bpsCommInitRank().
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

int main(void) {
  bpsComm_t comm = NULL;
  int rank = 0, ranks = 0;
  check(bpsCommInitFromEnv(&comm), NULL, "bpsCommInitFromEnv");
  check(bpsCommUserRank(comm, &rank), comm, "bpsCommUserRank");
  check(bpsCommCount(comm, &ranks), comm, "bpsCommCount");

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
