// bpsComm: the object behind a bpsComm_t. Its communicator is starting (non-blocking init, or inside a group), ready,
// or has failed to start.
//
// The program owns the handle. Threads inside a call hold references (HandleReference); the last reference frees it.
// Threads: `state`, `finalizeState`, `references`, `released` and `error` on any; the rest on the thread that uses the
// communicator.
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
  std::atomic<int> references{1};     // of the owner and of threads inside a call, which touch it last
  std::atomic<bool> released{false};  // the owner has dropped its reference
  bps::FirstError error;              // the failure of a start or a non-blocking finalize
  std::thread worker;                 // non-blocking init; later, finalize
  enum class FinalizeState : uint8_t { kNotStarted, kInProgress, kDone };
  std::atomic<FinalizeState> finalizeState{FinalizeState::kNotStarted};  // of a non-blocking finalize
  std::unique_ptr<bps::Communicator> communicator;  // never null; started when state becomes kReady
  // Set before kReady; null: bps combines buffers inside machines.
  std::unique_ptr<bps::nccl::LocalGpuGroup> gpuGroup;
  uint32_t rank = 0, nRanks = 0;
  bool blocking = true;
  const unsigned forks = bps::forkGeneration();
  bool formsGpuGroups = true;  // false: other code combines the buffers inside machines
  std::map<int, bps::UserOp> userOps;
  int nextUserOp = bpsNumOps;

  ~bpsComm();
};

namespace bps {

// An argument error if `comm` is not a handle.
Result<bpsComm*> checkedHandle(bpsComm_t comm);

// The last reference frees the handle.
inline void dropReference(bpsComm& handle) {
  if (handle.references.fetch_sub(1) == 1) delete &handle;
}

// Drops the owner's reference; later calls do nothing. False: it was dropped before.
inline bool releaseByOwner(bpsComm& handle) {
  if (handle.released.exchange(true)) return false;
  dropReference(handle);
  return true;
}

// The reference of a thread inside a call: the handle is not freed while it lives.
class HandleReference {
 public:
  // An argument error if `comm` is not a handle, or is being freed.
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

// The local GPU group of a communicator that is ready, if it has one; else null.
nccl::LocalGpuGroup* gpuGroupOf(const bpsComm& handle);
// kInvalidArgument while the communicator starts; its error if it has failed to start.
Result<HandleReference> readyCommunicator(bpsComm_t comm);

// Starts the communicator of `handle` and sets *out. A blocking one starts now, or at the end of the thread's open
// group; a non-blocking one on a thread of its own. On failure *out becomes null and the handle is freed.
Status startHandle(bpsComm_t* out, std::unique_ptr<bpsComm> handle);
// Starts the communicator of `handle` in the calling thread and records the outcome in the handle's state.
Status runStart(bpsComm& handle);

// True: the parent process made the handle, and has its threads and connections.
bool isInheritedByFork(const bpsComm& handle);

}  // namespace bps
