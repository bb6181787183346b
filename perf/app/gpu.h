// Gpu: the CUDA device that holds a rank's buffers. One thread creates, uses and destroys a Gpu.
// The device is that thread's current device as long as the Gpu exists.
#pragma once
#include <bps/bps.h>

#include <memory>
#include <string>

#include "src/cuda/device.h"

namespace bps::perf {

class Gpu {
 public:
  // Opens this rank's device according to BPS_DEVICE. Returns null if there is no device or
  // BPS_DEVICE asks for none; the buffers are then in host memory.
  static Result<std::unique_ptr<Gpu>> open(int rank, bool defaultStream);
  ~Gpu();

  int device() const { return device_.ordinal(); }
  const std::string& name() const { return name_; }
  cudaStream_t stream() const { return stream_; }
  Status synchronize();
  Result<bool> idle() const;  // true if nothing is left in the stream

  Result<void*> allocate(size_t bytes);
  void release(void* memory);
  // Copies between host and device memory in any direction and waits for the copy.
  Status copy(void* to, const void* from, size_t bytes);

 private:
  explicit Gpu(cuda::Device& device) : device_(device), scope_(device) {}

  cuda::Device& device_;
  cuda::ScopedContext scope_;
  std::string name_;
  cudaStream_t stream_ = nullptr;  // null means CUDA's default stream
};

}  // namespace bps::perf
