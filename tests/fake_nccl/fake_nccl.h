// A double of NCCL, libnccl.so.2: communicators of processes and threads of one machine, on host memory.
//
// As in NCCL: functions have the names pncclX and, weak, ncclX; some call others through the PLT, where an interposer
// sees them; groups nest per thread, and carry out their calls at the end, collectives before sends and receives;
// communicators may be non-blocking; users make operations. Functions that the double lacks return success.
//
// With the CUDA double in the process (tests/fake_cuda), buffers are device memory and calls run in the order of their
// stream; without it, calls run before they return.
//
// Ranks meet in a file of the directory FAKE_NCCL_DIR. Communicators are on the CUDA device FAKE_NCCL_DEVICE, default
// 0. With FAKE_NCCL_PROMPT_FINALIZE a finalize has ended when it returns, also of non-blocking communicators.
#pragma once

extern "C" {
// The calls of pncclX functions since fakeNcclClearCalls(), with their counts: "ncclGroupStart ncclAllReduce:1024 ".
const char* fakeNcclCalls();
void fakeNcclClearCalls();
// The `after`-th next call of the function ("ncclAllGather") returns this result and does nothing else.
void fakeNcclFail(const char* name, int result, unsigned after = 1);
// Questions for errors take so long from now on.
void fakeNcclDelayAsyncError(int milliseconds);
// The number of calls of pncclCommGetAsyncError.
unsigned fakeNcclAsyncErrorCalls();
}
