// A fake CUDA driver, libcuda.so.1, for machines without a GPU. A program loads the fake instead of
// the real driver if the fake's directory is first in LD_LIBRARY_PATH. A program also gets the fake
// if it loads the fake by its path before anything opens libcuda.so.1.
//
// Properties:
//  - "Device memory" has addresses that the CPU can neither read nor write. A missing copy therefore ends the process
//    at once. fakeCudaAlias(pointer) returns an address of the same bytes that the CPU can access. The "kernels" of
//    a test use that address.
//  - A stream is an ordered queue with one thread. As on real devices, streams may share a queue: see
//    FAKE_CUDA_QUEUES below. Each priority has its own queues.
//  - The legacy default stream and all blocking streams wait for each other. The per-thread default stream is a
//    blocking stream.
//  - A copy from or to memory that is neither device memory nor pinned blocks its caller. A real driver may block
//    its caller there too.
//  - Events, host functions, waits for a value in memory, and stream capture behave as the driver's manual says.
//    While a stream is captured in global mode, a function that the manual calls unsafe fails and ends the capture,
//    unless the thread that calls the function is in relaxed mode.
//  - A function that needs a current context fails without one. A function that needs an event of the stream's
//    context fails if the event is of another context.
//
// The fake runs the kernel of src/cuda/sum, in the order of its stream. Any other kernel is an error, and so are a
// wrong size of its parameters and an image without it. The first launch of a kernel loads it.
//
// The fake has no other kernels, graphs, memory pools, peer access or interprocess handles. A capture
// records no operations.
//
// Environment variables, which the fake reads when it needs their values:
//   FAKE_CUDA_DEVICES=N           The driver has N devices, 1 by default. With 0 the driver exists but has no device.
//   FAKE_CUDA_QUEUES=N            All streams of one priority share N queues, as with CUDA_DEVICE_MAX_CONNECTIONS=N.
//   FAKE_CUDA_DEPTH=N             A queue holds N operations. Enqueuing more operations blocks the caller.
//   FAKE_CUDA_MEM_OPS=0           Streams do not support waits for a value in memory.
//   FAKE_CUDA_FREE_WAITS=1        Freeing memory waits for all operations in the device's streams.
//   FAKE_CUDA_PEER_MEMORY=1       The CPU can access device memory, and so can network devices made of software.
//   FAKE_CUDA_SERIAL_CALLBACKS=1  The host functions of all streams run one at a time.
//   FAKE_CUDA_LAUNCH_BLOCKING=1   The launch of a kernel returns when the kernel has ended, as with
//                                 CUDA_LAUNCH_BLOCKING=1. Copies and stream memory operations do not wait.
//   FAKE_CUDA_STRICT=1            The driver is the worst that the rules allow. Every context has a lock. A function
//   that
//                                 allocates, frees, registers, or creates a stream or an event, and the first launch of
//                                 a kernel, hold the lock until all streams of the context are idle. A launch into a
//                                 full queue (64 operations by default) holds it until there is room. Every other
//                                 function, except those for contexts, waits until the lock is free. Copies in one
//                                 direction are carried out in the order in which they were issued, whatever their
//                                 streams. Host functions run one at a time.
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

// Stores the addresses of at most `most` regions that cuMemHostRegister has pinned, and returns how many it stored.
size_t fakeCudaRegistered(uintptr_t* addresses, size_t most);

// Runs `body` as a "kernel" in the order of the stream. Other streams do not wait for `body`. If
// `body` waits, the stream waits too.
int fakeCudaLaunch(void* stream, void (*body)(void*), void* argument);
// The same for a kernel that was never launched before, as with lazy loading of modules.
int fakeCudaFirstLaunch(void* stream, void (*body)(void*), void* argument);
}
