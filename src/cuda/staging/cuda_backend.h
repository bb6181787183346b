// CudaBackend: a communicator's calls on CUDA streams and CUDA memory. CudaBackend puts the copies of a call into
// streams (copy_queue.h), and has the staging memory. It neither uses the device nor creates a context before the first
// call that needs the device.
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
#include <atomic>
#include <memory>
#include <vector>

#include "src/base/env.h"
#include "src/comm/call/all_reduce_call.h"
#include "src/comm/call/collective.h"
#include "src/cuda/memory_kind.h"
#include "src/cuda/staging/copy_queue.h"
#include "src/cuda/staging/staged_buffers.h"

namespace bps {

class CudaBackend {
 public:
  // Returns the number of devices that create() may choose from. 0 means that only host memory is
  // used.
  static Result<int> devices(const Env& env);
  // If `ordinal` is -1, the backend uses the current device of the calling thread. Returns null if
  // BPS_DEVICE excludes CUDA or if there is no driver.
  static Result<std::unique_ptr<CudaBackend>> create(const Env& env, int ordinal);
  ~CudaBackend();
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  // Call start() before the first all-reduce. A copy that takes longer than `copyTimeout` counts as a failure.
  void start(std::chrono::nanoseconds copyTimeout) { buffers_.setCopyTimeout(copyTimeout); }

  int ordinal() const { return ordinal_; }
  std::string busId() const { return cuda::Device::busId(api_, ordinal_); }
  StagedBuffers& buffers() { return buffers_; }

  // True if both buffers are in memory of the device and the stream is a CUDA stream.
  Result<bool> holds(const AllReduceCall& call);

  // Finds out whether the call uses CUDA, and sets the buffers of `collective`. Fails if the call is impossible, and
  // has no effect then.
  Result<bool> prepare(const AllReduceCall& call, Collective& collective);
  // Finds room for a call that is cut, and sets its position. Then pass the call to the progress thread, and then to
  // enqueue(), which puts it into its stream. A failure of one of these two functions ends the communicator.
  Result<cuda::CopyQueue::PlacedCall> place(const AllReduceCall& call, Collective& collective);
  Status enqueue(const AllReduceCall& call, const cuda::CopyQueue::PlacedCall& placed);
  // Between beginGroup() and endGroup(), a stream waits only once for the calls that are in it, unless a call uses
  // buffers of an earlier one: later work of the application comes after endGroup().
  void beginGroup() { group_ = Group{true, {}, {}}; }
  Status endGroup();

  // True if all copies of all calls are done.
  bool idle() const;
  // Waits until all copies of calls that have ended are done.
  void waitForCopies(Deadline deadline) const;
  // Lets the streams of failed calls go on. Waits for the copies of calls that their streams have reached, for up to 2
  // s: afterwards no such copy touches a buffer. Any thread may call this function.
  void releaseFailedStreams() const;

 private:
  struct BufferKinds {
    cuda::MemoryKind send, recv, scalar;
  };
  struct Group {
    bool open = false;
    std::vector<cuda::Stream> streams;  // that have calls of the group
    std::vector<CallBuffers> buffers;   // of these calls
    // True if a call with these buffers must come after a call of the group.
    bool depends(const CallBuffers& call) const;
  };
  CudaBackend(const cuda::Api& api, int ordinal) : api_(api), ordinal_(ordinal) {}
  Status open();
  Status checkStream(cuda::Stream stream) const;
  Result<BufferKinds> classifyBuffers(const AllReduceCall& call) const;

  const cuda::Api& api_;
  int ordinal_;
  cuda::Device* device_ = nullptr;
  std::atomic<cuda::CopyQueue*> queue_{nullptr};  // returned to the pool by the destructor
  StagedBuffers buffers_;
  Group group_;
};

}  // namespace bps
