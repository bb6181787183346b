// bpsComm: the object behind a bpsComm_t. The communicator of a bpsComm is starting (in a
// non-blocking init or inside a group), is ready, or has failed to start.
//
// The program frees the handle with bpsCommDestroy or bpsCommAbort. Threads inside a call hold
// references (HandleReference), and the last reference frees the handle. Any thread may access
// `state`, `finalizeState`, `references`, `released`, `revoked` and `error`. Only the thread that uses the
// communicator may access the other members.
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
#include "src/comm/parameters/param_group.h"
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
  std::atomic<int> references{1};     // one for the program and one for each thread inside a call
  std::atomic<bool> released{false};  // the program has dropped its reference
  std::atomic<bool> revoked{false};   // bpsCommRevoke has ended the calls
  bps::FirstError error;              // failure of the start or of a non-blocking finalize
  std::thread worker;                 // runs a non-blocking init, and later a non-blocking finalize
  enum class FinalizeState : uint8_t { kNotStarted, kInProgress, kDone };
  std::atomic<FinalizeState> finalizeState{FinalizeState::kNotStarted};  // the state of a non-blocking finalize
  std::unique_ptr<bps::Communicator> communicator;  // never null; it has started when `state` is kReady
  // gpuGroup is set before `state` becomes kReady. If gpuGroup is null, bps itself combines the
  // buffers inside machines.
  std::unique_ptr<bps::nccl::LocalGpuGroup> gpuGroup;
  std::unique_ptr<bps::ParamGroup> parameters;  // null until the first bpsParamInit
  bool parametersStarted = false;
  std::atomic<bps::ParamGroup*> abortable{nullptr};  // `parameters`, for other threads
  uint32_t rank = 0, nRanks = 0;
  bool blocking = true;
  const unsigned forks = bps::forkGeneration();
  bool formsGpuGroups = true;  // if false, other code combines the buffers inside machines
  std::map<int, bps::UserOp> userOps;
  int nextUserOp = bpsNumOps;

  ~bpsComm();
};

namespace bps {

// Returns `comm`, or a failure if it is not a valid handle of this process.
Result<bpsComm*> checkedHandle(bpsComm_t comm);

// Drops one reference. The last reference frees the handle.
inline void dropReference(bpsComm& handle) {
  if (handle.references.fetch_sub(1) == 1) delete &handle;
}

// Drops the program's reference to the handle. Later calls do nothing and return false.
inline bool releaseByOwner(bpsComm& handle) {
  if (handle.released.exchange(true)) return false;
  dropReference(handle);
  return true;
}

// The reference of a thread inside a call. The handle is not freed while the reference exists.
class HandleReference {
 public:
  // Fails if `comm` is not a valid handle, or if it is being freed.
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

// Returns the local GPU group of a communicator, or null if it has no group or is not ready.
nccl::LocalGpuGroup* gpuGroupOf(const bpsComm& handle);
// Fails with kInvalidArgument while the communicator starts. If the start has failed, returns the
// start's error.
Result<HandleReference> readyCommunicator(bpsComm_t comm);

// Returns the setting `blocking` of a configuration, or `inherited` if it is not set.
Result<bool> blockingOf(const bpsConfig_t* config, bool inherited);
// Makes a handle whose communicator has not started.
Result<std::unique_ptr<bpsComm>> createHandle(const Env& env, const Communicator::Membership& membership,
                                              bool blocking);
// Starts the communicator of `handle` and sets *out. A blocking communicator starts now, or at the
// end of the thread's open group. A non-blocking communicator starts on a separate thread. On
// failure *out becomes null and the handle is freed.
Status startHandle(bpsComm_t* out, std::unique_ptr<bpsComm> handle);
// Starts the communicator of `handle` in the calling thread and records the outcome in the handle's state.
Status runStart(bpsComm& handle);

// Ends the calls in flight, also those of the local GPU group, and does not wait for their end.
void abortCalls(const bpsComm& handle);

// True if the parent process made the handle. The handle's threads and connections then belong to
// the parent.
bool isInheritedByFork(const bpsComm& handle);

}  // namespace bps
