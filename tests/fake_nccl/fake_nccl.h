// A fake NCCL, libnccl.so.2: communicators of processes and threads of one machine, on host memory.
//
// Like NCCL, it exports every function F as `pncclF` and as a weak `ncclF`. It calls some of its own functions through
// the PLT, so an interposer sees those calls. Groups nest, per thread. The calls of a group run when the outermost
// group ends, collectives before sends and receives. It supports non-blocking communicators and user-defined
// operations. All other functions return success.
//
// If the process has the fake CUDA driver (tests/fake_cuda), buffers are device memory and calls run in the order of
// their stream; otherwise a call has ended when it returns.
//
// Ranks meet in a file of the directory FAKE_NCCL_DIR. Communicators use the CUDA device FAKE_NCCL_DEVICE, 0 by
// default. With FAKE_NCCL_PROMPT_FINALIZE a finalize has ended when it returns, also of non-blocking communicators.
#pragma once

extern "C" {
// The calls by pncclX names since fakeNcclClearCalls(), as "ncclGroupStart ncclAllReduce:1024 ", with the count.
const char* fakeNcclCalls();
void fakeNcclClearCalls();
// The `after`-th call of the function ("ncclAllGather") from now on (1: the next one) returns this result and does
// nothing.
void fakeNcclFail(const char* name, int result, unsigned after = 1);
// Makes ncclCommGetAsyncError take this long.
void fakeNcclDelayAsyncError(int milliseconds);
// Counts the calls of pncclCommGetAsyncError.
unsigned fakeNcclAsyncErrorCalls();
}
