// A double of the CUDA driver, libcuda.so.1, for machines without a GPU. A program finds it instead of a real one when
// its directory comes first in LD_LIBRARY_PATH, or when it was loaded by its path before anybody asks for
// libcuda.so.1.
//
// What it is like:
//  - "Device memory" lies at addresses where the CPU may neither read nor write, so that a missing copy ends the
//  process
//    at once. The same bytes lie, accessible, at fakeCudaAlias(pointer): that is where a test's "kernels" work.
//  - Streams are ordered queues, each with a thread of its own; or, as on real devices, some share one (see below). The
//    legacy default stream waits for blocking streams and they for it, the per-thread default stream is one of them.
//    Priorities have queues of their own.
//  - Copies to or from memory that is neither device memory nor pinned hold up the caller, as a real driver may.
//  - Events, host functions, waits for a value in memory, and stream capture do what the driver's manual says. While a
//    stream is captured in global mode, a call that the manual calls unsafe, from a thread that is not in relaxed mode,
//    fails and ends the capture.
//  - Calls that need a current context, or an event of the stream's own context, fail without.
//
// What it is not: no kernels, graphs, pools, peers, interprocess handles. A capture records nothing.
//
// Set when the process starts:
//   FAKE_CUDA_DEVICES=N           number of devices; 1 unless set; 0: the driver is there, and no device
//   FAKE_CUDA_QUEUES=N            streams of one priority share N queues, as with CUDA_DEVICE_MAX_CONNECTIONS=N
//   FAKE_CUDA_DEPTH=N             a queue holds N operations; who puts in more is held up
//   FAKE_CUDA_MEM_OPS=0           waits for a value in memory are not supported
//   FAKE_CUDA_FREE_WAITS=1        who gives memory back waits for all that is in the device's streams
//   FAKE_CUDA_PEER_MEMORY=1       device memory can be touched, so that network devices in software reach it
//   FAKE_CUDA_SERIAL_CALLBACKS=1  host functions of all streams run one at a time
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

// How often a function of the driver has been called, by its exported name ("cuMemcpyAsync"). "pageable copy" counts
// the copies that held up their caller, "copied bytes" what was copied.
uint64_t fakeCudaCalls(const char* name);

// The `after`-th call of the function from now on (1: the next) returns this error and does nothing.
void fakeCudaFail(const char* name, unsigned after, int error);

// How fast copies are, in bytes per second; 0: as fast as the CPU does them.
void fakeCudaCopyRate(double bytesPerSecond);

// Where the CPU finds the bytes of device memory; any other pointer is returned as it is.
void* fakeCudaAlias(const void* pointer);

// A "kernel": runs `body` in the order of the stream, with nothing that other streams would notice. It may take its
// time, so a test holds a stream back with one that waits.
int fakeCudaLaunch(void* stream, void (*body)(void*), void* argument);
}
