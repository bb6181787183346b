// A fake NCCL, libnccl.so.2. The communicators of the fake connect processes and threads of one
// machine through host memory.
//
// Like NCCL, the fake exports every function F as `pncclF` and as a weak `ncclF`. The fake calls
// some of its functions through the PLT, so an interposer sees those calls. Groups can nest, and
// each thread has a separate group. The calls of a group run when the outermost group ends,
// collectives before sends and receives. The fake supports non-blocking communicators and
// user-defined operations. The functions that it does not implement return success.
//
// If the process has the fake CUDA driver (tests/fake_cuda), buffers are device memory, and calls
// run in the order of their stream. Without that driver, a call has ended when it returns.
//
// The ranks of a communicator meet in a file of the directory FAKE_NCCL_DIR. Communicators use the
// CUDA device FAKE_NCCL_DEVICE, which is 0 by default. If FAKE_NCCL_PROMPT_FINALIZE is set, a
// finalize has ended when it returns, even on a non-blocking communicator.
#pragma once
#include <cstdint>

extern "C" {
// Returns the pncclX calls since fakeNcclClearCalls(), such as "ncclGroupStart ncclAllReduce:1024
// ". The number after the colon is the element count.
const char* fakeNcclCalls();
void fakeNcclClearCalls();
// Makes the `after`-th call of the function (such as "ncclAllGather") from now on return this
// result and do nothing. With `after` 1, the next call does so.
void fakeNcclFail(const char* name, int result, unsigned after = 1);
// Makes every ncclCommGetAsyncError call take this many milliseconds.
void fakeNcclDelayAsyncError(int milliseconds);
// Returns the number of pncclCommGetAsyncError calls.
unsigned fakeNcclAsyncErrorCalls();
// Returns the bytes that this process has sent to other ranks by reduce-scatters, all-gathers and sends.
uint64_t fakeNcclSentBytes();
}
