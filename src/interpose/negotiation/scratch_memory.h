// ScratchMemory: a little memory that NCCL can work on, on the device or the host, for the interposer's own calls.
//
// The creator owns it. Threads: one at a time; the free functions on any.
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
  // Allocates `most` bytes on the device with this number, or less if the device has less, but at least `least`.
  static Result<std::unique_ptr<ScratchMemory>> allocate(int device, size_t least, size_t most);

  void* data() const { return data_; }
  size_t size() const { return size_; }
  // A stream of its own, which is not ordered with the application's streams.
  cudaStream_t stream() const { return stream_; }
  // Both are queued on stream(); `bytes` must stay valid until idle().
  virtual Status upload(size_t offset, std::span<const uint8_t> bytes) = 0;
  virtual Status download(size_t offset, std::span<uint8_t> bytes) = 0;
  // True: NCCL and bps have carried out everything on stream().
  virtual Result<bool> idle() = 0;

 protected:
  void* data_ = nullptr;
  size_t size_ = 0;
  cudaStream_t stream_ = nullptr;
};

// While it lives, the device is the calling thread's current one.
class ScopedDevice {
 public:
  static Result<ScopedDevice> enter(int device);

 private:
  explicit ScopedDevice(std::unique_ptr<cuda::ScopedContext> scope) : scope_(std::move(scope)) {}
  std::unique_ptr<cuda::ScopedContext> scope_;
};

// True: there is no CUDA driver, so buffers are host memory. The application has no stream to wait on, so a call is
// complete when it returns.
bool buffersAreOnHost();
// True: calls on this stream are recorded into a graph and not carried out now.
bool isCapturing(cudaStream_t stream);

}  // namespace bps::interpose
