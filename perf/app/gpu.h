// Gpu: the CUDA device that a rank's buffers lie on, where there is one. Made, used and destroyed by one thread, whose
// current device it is meanwhile.
#pragma once
#include <bps/bps.h>

#include <memory>
#include <string>

#include "src/cuda/device.h"

namespace bps::perf {

class Gpu {
 public:
  // By BPS_DEVICE, for this rank. Null: buffers lie in host memory, since there is no device or none is wanted.
  static Result<std::unique_ptr<Gpu>> open(int rank, bool defaultStream);
  ~Gpu();

  int device() const { return device_.ordinal(); }
  const std::string& name() const { return name_; }
  cudaStream_t stream() const { return stream_; }
  Status synchronize();

  Result<void*> allocate(size_t bytes);
  void release(void* memory);
  // Between any two kinds of memory; waits for it.
  Status copy(void* to, const void* from, size_t bytes);

 private:
  explicit Gpu(cuda::Device& device) : device_(device), scope_(device) {}

  cuda::Device& device_;
  cuda::ScopedContext scope_;
  std::string name_;
  cudaStream_t stream_ = nullptr;  // null: the default one
};

}  // namespace bps::perf
