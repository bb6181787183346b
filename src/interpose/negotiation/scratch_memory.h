// ScratchMemory: a small block of device or host memory on which NCCL can work. The interposer uses this memory for its
// own calls.
//
// Only one thread at a time may use a ScratchMemory. Any thread may call the free functions in this file.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "src/base/status.h"
#include "src/cuda/device.h"
#include "src/nccl/types.h"

namespace bps::interpose {

class ScratchMemory {
 public:
  virtual ~ScratchMemory() = default;
  // Allocates `most` bytes on the device with this number. If the device has less free memory, allocates fewer bytes,
  // but at least `least`.
  static Result<std::unique_ptr<ScratchMemory>> allocate(int device, size_t least, size_t most);

  void* data() const { return data_; }
  size_t size() const { return size_; }
  // The stream for work on this memory, which is not ordered with the application's streams.
  cudaStream_t stream() const { return stream_; }
  // upload() and download() queue a copy on stream(). `bytes` must stay valid until idle() returns true.
  virtual Status upload(size_t offset, std::span<const uint8_t> bytes) = 0;
  virtual Status download(size_t offset, std::span<uint8_t> bytes) = 0;
  // True if NCCL and bps have carried out all work on stream().
  virtual Result<bool> idle() = 0;

 protected:
  void* data_ = nullptr;
  size_t size_ = 0;
  cudaStream_t stream_ = nullptr;
};

// While a ScopedDevice exists, its device is the current CUDA device of the calling thread.
class ScopedDevice {
 public:
  static Result<ScopedDevice> enter(int device);

 private:
  explicit ScopedDevice(std::unique_ptr<cuda::ScopedContext> scope) : scope_(std::move(scope)) {}
  std::unique_ptr<cuda::ScopedContext> scope_;
};

// True if there is no CUDA driver, so that all buffers are in host memory. The application then has no stream on which
// it could wait, so every call is complete when it returns.
bool buffersAreOnHost();
// True if calls on this stream are recorded into a CUDA graph and not carried out now.
bool isCapturing(cudaStream_t stream);

}  // namespace bps::interpose
