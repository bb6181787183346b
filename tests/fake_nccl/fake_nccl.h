// A double of NCCL, libnccl.so.2: communicators of processes and threads of one machine, on host memory.
//
// What it is like: pncclX and, weak, ncclX; it calls some of its own functions through the PLT, where an interposer's
// lie in wait; depth of groups per thread; calls of a group are carried out when it ends, collectives before sends and
// receives; non-blocking communicators; operations made by the user. What it does not need it answers with success.
//
// With the CUDA double in the process (tests/fake_cuda), buffers are device memory and calls are carried out in the
// order of their stream; without, before they return.
//
// Ranks meet in a file of the directory FAKE_NCCL_DIR. Communicators are on the CUDA device FAKE_NCCL_DEVICE, 0 unless
// set. With FAKE_NCCL_PROMPT_FINALIZE a finalize has ended when it returns, also of non-blocking communicators.
#pragma once

extern "C" {
// What was called by its pncclX name since fakeNcclClearCalls(), as "ncclGroupStart ncclAllReduce:1024 ", with the
// count.
const char* fakeNcclCalls();
void fakeNcclClearCalls();
// The `after`-th call of the function ("ncclAllGather") from now on, 1: the next, returns this result and does nothing.
void fakeNcclFail(const char* name, int result, unsigned after = 1);
// Who asks for errors stays in NCCL for so long.
void fakeNcclDelayAsyncError(int milliseconds);
// How often it was asked for errors by its pncclX name.
unsigned fakeNcclAsyncErrorCalls();
}
