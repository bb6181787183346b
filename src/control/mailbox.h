// Mailbox: the state that the callers' threads and the control thread of one ControlPlane share.
//
// Callers post functions, which the control thread runs on the ControlNode in order. One mutex guards all state but one
// counter. A Doorbell wakes the control thread, a condition variable wakes the callers. The ControlPlane owns it.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/mutex.h"
#include "src/control/control_node.h"
#include "src/control/control_plane.h"

namespace bps {

class Mailbox final : public ControlNodeEvents {
 public:
  using Call = std::function<void(ControlNode&)>;

  Mailbox(Doorbell bell, ControlPlane::FailureSink sink) : bell_(std::move(bell)), sink_(std::move(sink)) {}

  // Called by the callers' threads.
  void post(Call call);
  Status waitJoin(Deadline deadline, Roster& roster);
  // Posts a control operation and waits for its result.
  Result<std::vector<Blob>> runOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline);
  void waitLeave(Deadline deadline);
  bool hasLeft(size_t member);
  void interrupt();
  void stop();
  // For the heartbeats.
  void setCallsStarted(uint64_t calls) { callsStarted_.store(calls, std::memory_order_relaxed); }
  void setWait(const MemberWait& wait) {
    MutexLock lock(mutex_);
    wait_ = wait;
  }

  // Called by the control thread.
  int wakeFd() const { return bell_.fd(); }
  // Sets `stopped` if stop() was called; all calls posted before it have then been taken.
  std::vector<Call> takeCalls(bool& stopped);
  Heartbeat heartbeat();

  void joined(const Roster& roster) override;
  void answered(Result<std::vector<Blob>> blobs) override;
  void failed(const Status& failure) override;
  void memberLeft(size_t member) override;
  void hubLeft() override;
  void leaveDone() override;

 private:
  Doorbell bell_;
  ControlPlane::FailureSink sink_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Call> calls_ BPS_GUARDED_BY(mutex_);
  std::atomic<uint64_t> callsStarted_{0};  // relaxed: orders nothing else
  MemberWait wait_ BPS_GUARDED_BY(mutex_);
  std::optional<Roster> roster_ BPS_GUARDED_BY(mutex_);
  std::optional<Result<std::vector<Blob>>> answer_ BPS_GUARDED_BY(mutex_);
  Status failure_ BPS_GUARDED_BY(mutex_);
  std::vector<bool> left_ BPS_GUARDED_BY(mutex_);
  bool hubLeft_ BPS_GUARDED_BY(mutex_) = false;
  bool leaving_ BPS_GUARDED_BY(mutex_) = false;
  bool leaveDone_ BPS_GUARDED_BY(mutex_) = false;
  bool interrupted_ BPS_GUARDED_BY(mutex_) = false;
  bool stopped_ BPS_GUARDED_BY(mutex_) = false;
};

}  // namespace bps
