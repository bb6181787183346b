// Where the buffers of a communicator live, as far as the interposer itself needs to know: a little memory that NCCL
// can work on, copies to and from it, and whether a stream is being captured.
//
// Threads: a ScratchMemory belongs to one thread at a time.
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
  // Of `most` bytes, or what the device has, and at least `least`, on the device with this number.
  static Result<std::unique_ptr<ScratchMemory>> allocate(int device, size_t least, size_t most);

  void* data() const { return data_; }
  size_t size() const { return size_; }
  // Its own stream: nothing of the application's waits for it, nor it for them.
  cudaStream_t stream() const { return stream_; }
  // Queued on stream(); `bytes` must stay until idle().
  virtual Status upload(size_t offset, std::span<const uint8_t> bytes) = 0;
  virtual Status download(size_t offset, std::span<uint8_t> bytes) = 0;
  // Everything queued on stream() is done, by NCCL and by bps.
  virtual Result<bool> idle() = 0;

 protected:
  void* data_ = nullptr;
  size_t size_ = 0;
  cudaStream_t stream_ = nullptr;
};

// While it lives, the calling thread works on the device with this number, as bps takes it for a communicator's.
class ScopedDevice {
 public:
  static Result<ScopedDevice> enter(int device);

 private:
  explicit ScopedDevice(std::unique_ptr<cuda::ScopedContext> scope) : scope_(std::move(scope)) {}
  std::unique_ptr<cuda::ScopedContext> scope_;
};

// Buffers are host memory (BPS_DEVICE=host, or no CUDA driver): the application has no stream that it could wait on, so
// a call is complete when it returns.
bool buffersAreOnHost();
// Calls on this stream are recorded for later and not carried out now.
bool isCapturing(cudaStream_t stream);

}  // namespace bps::interpose
