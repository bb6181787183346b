// CudaBackend: a communicator's calls on CUDA streams and CUDA memory. CudaBackend holds the gates
// in the streams of one device, and the staging buffers. CudaBackend neither uses the device nor
// creates a context before the first call that needs the device.
//
// The stream argument decides the order of a call:
//   CUDA stream   The call runs in the order of that stream.
//   host stream   The call runs in the order of that stream. Memory that only the device can access
//                 is an error.
//   NULL          If CUDA knows one of the buffers, NULL means CUDA's legacy default stream. Otherwise
//                 it means the default host stream.
//
// Only the thread that uses the communicator calls these functions, except where a comment says
// otherwise.
#pragma once
#include <memory>

#include "src/base/env.h"
#include "src/comm/call/all_reduce_call.h"
#include "src/comm/call/collective.h"
#include "src/cuda/memory_kind.h"
#include "src/cuda/staging/failed_gates.h"
#include "src/cuda/staging/staged_buffers.h"
#include "src/cuda/stream_gate.h"

namespace bps {

class CudaBackend {
 public:
  // Returns the number of devices that create() may choose from. 0 means that only host memory is
  // used.
  static Result<int> devices(const Env& env);
  // If `ordinal` is -1, the backend uses the current device of the calling thread. Returns null if
  // BPS_DEVICE excludes CUDA or if there is no driver.
  static Result<std::unique_ptr<CudaBackend>> create(const Env& env, int ordinal);
  ~CudaBackend() { releaseFailedStreams(); }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  // Call start() before the first all-reduce. `bell` rings when a stream reaches the gate of a
  // call.
  void start(std::shared_ptr<Doorbell> bell, const StagingShape& shape) {
    bell_ = std::move(bell);
    stagingShape_ = shape;
  }
  // After holdFailedStreams(), streams stop at failed calls until releaseFailedStreams() or the
  // destructor. Any thread may call these two functions.
  void holdFailedStreams() const { failed_->keepClosed(); }
  void releaseFailedStreams() const { failed_->open(); }

  int ordinal() const { return ordinal_; }
  std::string busId() const { return cuda::Device::busId(api_, ordinal_); }
  StagedBuffers& buffers() { return buffers_; }

  // True if both buffers are in memory of the device and the stream is a CUDA stream.
  Result<bool> holds(const AllReduceCall& call);

  using Position = std::shared_ptr<StreamPosition>;
  // Puts the call into its stream and sets the buffers of `collective`. Returns null if the call does not use CUDA.
  Result<Position> enter(const AllReduceCall& call, Collective& collective);

 private:
  struct BufferKinds {
    cuda::MemoryKind send, recv, scalar;
  };
  CudaBackend(const cuda::Api& api, int ordinal) : api_(api), ordinal_(ordinal) {}
  Status open();
  Result<BufferKinds> classifyBuffers(const AllReduceCall& call) const;
  Status checkDevice(const cuda::MemoryKind& memory, const char* name) const;

  const cuda::Api& api_;
  int ordinal_;
  std::shared_ptr<Doorbell> bell_;
  StagingShape stagingShape_;
  // failed_ is shared with the stream positions of calls.
  const std::shared_ptr<FailedGates> failed_ = std::make_shared<FailedGates>();
  cuda::Device* device_ = nullptr;
  std::unique_ptr<cuda::StreamGates> gates_;
  StagedBuffers buffers_;
};

}  // namespace bps
