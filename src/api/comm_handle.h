// bpsComm: what a bpsComm_t points to. The communicator behind it may still be starting (non-blocking init, or inside a
// group), be ready, or have failed to start.
//
// Threads: `state`, `end`, `visits` and `error` are for any thread; the rest belongs to the thread that uses the
// communicator. Who ends the communicator frees the handle when no other thread is inside a call any more (Visit,
// below).
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "bps/bps.h"
#include "src/comm/communicator.h"
#include "src/comm/failure/first_error.h"
#include "src/nccl/local_gpu_group.h"

namespace bps {

// An operation made by bpsRedOpCreatePreMulSum.
struct UserOp {
  DataType type = DataType::kFloat32;
  ScalarBits scalar = 0;
  const void* deviceScalar = nullptr;
};

}  // namespace bps

struct bpsComm {
  static constexpr uint64_t kMagic = 0x6270732d636f6d6d;  // "bps-comm"
  enum class State { kStarting, kReady, kFailed };

  uint64_t magic = kMagic;
  std::atomic<State> state{State::kStarting};
  std::atomic<int> references{1};     // and its owner; the last thing that each touches
  std::atomic<bool> released{false};  // by its owner
  bps::FirstError error;              // of a start or a non-blocking finalize that failed
  std::thread worker;                 // non-blocking init; later, finalize
  enum class FinalizeState : uint8_t { kNotStarted, kInProgress, kDone };
  std::atomic<FinalizeState> finalizeState{FinalizeState::kNotStarted};  // of a non-blocking finalize
  std::unique_ptr<bps::Communicator> communicator;  // never null; started when state becomes kReady
  std::unique_ptr<bps::nccl::LocalGpuGroup>
      gpuGroup;  // from kReady on; null: bps does what is to be done inside machines
  uint32_t rank = 0, nRanks = 0;
  bool blocking = true;
  const unsigned forks = bps::forkGeneration();
  bool formsGpuGroups = true;  // false: other code combines the buffers inside machines
  std::map<int, bps::UserOp> userOps;
  int nextUserOp = bpsNumOps;

  ~bpsComm();
};

namespace bps {

// The handle if it is one, else an argument error.
Result<bpsComm*> checkedHandle(bpsComm_t comm);

// Of a visit, or of the owner: the last one frees the handle.
inline void dropReference(bpsComm& handle) {
  if (handle.references.fetch_sub(1) == 1) delete &handle;
}

// By its owner: the program, or whoever could not start it. Only the first time counts.
inline bool releaseByOwner(bpsComm& handle) {
  if (handle.released.exchange(true)) return false;
  dropReference(handle);
  return true;
}

// A call that is inside a communicator: while it lasts, the handle is not freed.
class HandleReference {
 public:
  // An argument error if it is none, or is being freed.
  static Result<HandleReference> acquire(bpsComm_t comm);
  HandleReference(HandleReference&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  HandleReference& operator=(HandleReference&&) = delete;
  ~HandleReference() {
    if (handle_ != nullptr) dropReference(*handle_);
  }
  Communicator* operator->() const { return handle_->communicator.get(); }
  Communicator& operator*() const { return *handle_->communicator; }
  bpsComm& handle() const { return *handle_; }

 private:
  explicit HandleReference(bpsComm* handle) : handle_(handle) {}
  bpsComm* handle_;
};
// The team of GPUs, once the communicator is ready; else null.
nccl::LocalGpuGroup* gpuGroupOf(const bpsComm& handle);
// The communicator if it is ready; kInvalidArgument while it starts, its error when it failed to start.
Result<HandleReference> readyCommunicator(bpsComm_t comm);

// Starts the communicator of `handle`: now, on a thread of its own if it is non-blocking, or at the end of the thread's
// group. On failure *out becomes null and the handle is freed.
Status startHandle(bpsComm_t* out, std::unique_ptr<bpsComm> handle);
// Starts the communicator of `handle` in the calling thread and records the outcome in the handle's state.
Status runStart(bpsComm& handle);

// This process was forked off after its parent had made a communicator: threads and connections are the parent's.
bool isInheritedByFork(const bpsComm& handle);

}  // namespace bps
