// CudaBackend: what a communicator needs for calls on CUDA's streams and memory: one device, its gates in the streams,
// and staging. Nothing of the device is touched, and no context made, before the first call that concerns it.
//
// Which order a call keeps:
//   a stream that is no host stream   CUDA's
//   a host stream                     the host stream's; memory that only the device can reach is refused
//   NULL                              CUDA's legacy default stream if CUDA knows one of the buffers, else the host's
//
// Threads: create(), enter() and start() by the caller of the communicator.
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
  // How many devices create() may choose from; 0: only the host.
  static Result<int> devices(const Env& env);
  // `ordinal` -1: the calling thread's device. Null: there is only the host, by BPS_DEVICE or for want of a driver.
  static Result<std::unique_ptr<CudaBackend>> create(const Env& env, int ordinal);
  ~CudaBackend() { releaseFailedStreams(); }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  struct Settings {
    std::shared_ptr<Doorbell> bell;  // rings when a stream has come to its call
    StagingConfig staging;
  };
  void start(Settings settings) { settings_ = std::move(settings); }
  // Streams stand at calls that fail, until releaseFailedStreams() or the end. Any thread.
  void holdFailedStreams() const { failed_->keepClosed(); }
  void releaseFailedStreams() const { failed_->open(); }

  int ordinal() const { return ordinal_; }
  std::string busId() const { return cuda::Device::busId(api_, ordinal_); }
  StagedBuffers& buffers() { return buffers_; }

  // Both buffers are memory of the device, and the stream is CUDA's.
  Result<bool> holds(const AllReduceCall& call);

  using Position = std::shared_ptr<StreamPosition>;
  // Puts the call into its stream, and fills in where its buffers lie. Null: the call does not concern CUDA.
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
  Settings settings_;
  const std::shared_ptr<FailedGates> failed_ = std::make_shared<FailedGates>();  // shared with places in streams
  cuda::Device* device_ = nullptr;
  std::unique_ptr<cuda::StreamGates> gates_;
  StagedBuffers buffers_;
};

}  // namespace bps
