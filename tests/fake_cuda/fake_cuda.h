// A fake CUDA driver, libcuda.so.1, for machines without a GPU. A program loads it instead of the real driver if its
// directory is first in LD_LIBRARY_PATH, or if something loads it by path before libcuda.so.1 is opened.
//
// Properties:
//  - "Device memory" has addresses that the CPU can neither read nor write, so a missing copy ends the process at once.
//    fakeCudaAlias(pointer) returns an accessible address of the same bytes; a test's "kernels" use it.
//  - Streams are ordered queues with one thread each. As on real devices, streams may share a queue (see below). The
//    legacy default stream and blocking streams wait for each other, and the per-thread default stream is a blocking
//    stream. Each priority has its own queues.
//  - Copies from or to memory that is neither device memory nor pinned block the caller, as a real driver may do.
//  - Events, host functions, waits for a value in memory, and stream capture behave as the driver's manual says. While
// a
//    stream is captured in global mode, a call that the manual calls unsafe fails and ends the capture, unless its
//    thread is in relaxed mode.
//  - Calls that need a current context, or an event of the stream's own context, fail without it.
//
// The fake has no kernels, graphs, pools, peers or interprocess handles. A capture records nothing.
//
// Environment, read when the process starts:
//   FAKE_CUDA_DEVICES=N           number of devices, 1 by default; 0: the driver exists and has no device
//   FAKE_CUDA_QUEUES=N            streams of one priority share N queues, as with CUDA_DEVICE_MAX_CONNECTIONS=N
//   FAKE_CUDA_DEPTH=N             a queue holds N operations; enqueuing more blocks the caller
//   FAKE_CUDA_MEM_OPS=0           waits for a value in memory are not supported
//   FAKE_CUDA_FREE_WAITS=1        freeing memory waits for all operations in the device's streams
//   FAKE_CUDA_PEER_MEMORY=1       the CPU can access device memory, so that software network devices reach it
//   FAKE_CUDA_SERIAL_CALLBACKS=1  host functions of all streams run one at a time
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

// Counts the calls of a driver function by its exported name, such as "cuMemcpyAsync". The name
// "pageable copy" counts the copies that blocked their caller, and "copied bytes" counts the copied
// bytes.
uint64_t fakeCudaCalls(const char* name);

// Makes the `after`-th call of the function from now on return this error and do nothing. With
// `after` 1, the next call fails.
void fakeCudaFail(const char* name, unsigned after, int error);

// Sets the rate of copies in bytes per second. With rate 0, copies run as fast as the CPU copies.
void fakeCudaCopyRate(double bytesPerSecond);

// Returns the address where the CPU can access device memory. Returns any other pointer unchanged.
void* fakeCudaAlias(const void* pointer);

// Runs `body` as a "kernel" in the order of the stream. Other streams do not wait for `body`. If
// `body` waits, the stream waits too.
int fakeCudaLaunch(void* stream, void (*body)(void*), void* argument);
}
