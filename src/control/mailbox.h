// Mailbox: the state that the control thread of a ControlPlane shares with the threads that call the ControlPlane.
//
// Callers post functions, and the control thread runs these functions on the ControlNode in order. One mutex guards all
// shared state except callsStarted_. A Doorbell wakes the control thread, and a condition variable wakes the callers.
// The Mailbox belongs to the ControlPlane.
#pragma once
#include <array>
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

  Mailbox(Doorbell bell, ControlPlane::Sinks sinks) : bell_(std::move(bell)), sinks_(std::move(sinks)) {}

  // The callers' threads call the following functions.
  void post(Call call);
  Status waitJoin(Deadline deadline, Roster& roster);
  // Posts a control operation and waits for its result.
  Result<std::vector<Blob>> runOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline);
  void waitLeave(Deadline deadline);
  bool hasLeft(size_t member);
  void interrupt();
  void stop();
  // setCallsStarted() and setWait() set the content of the next heartbeats. A new wait is sent at once (link.h).
  void setCallsStarted(uint64_t calls) { callsStarted_.store(calls, std::memory_order_relaxed); }
  void setWait(const MemberWait& wait) {
    MutexLock lock(mutex_);
    const bool changed = wait.call != wait_.call || wait.member != wait_.member;
    wait_ = wait;
    if (changed) bell_.ring();
  }

  // Only the control thread calls the following functions.
  int wakeFd() const { return bell_.fd(); }
  // Returns the posted calls. `stopped` becomes true if stop() was called. All calls that were posted before stop()
  // have then been returned.
  std::vector<Call> takeCalls(bool& stopped);
  Heartbeat heartbeat();

  void joined(const Roster& roster) override;
  void answered(ControlOp kind, Result<std::vector<Blob>> blobs) override;
  void failed(const Status& failure) override;
  void memberLeft(size_t member) override;
  void serverEvent(const ServerEvent& event) override {
    if (sinks_.serverEvent) sinks_.serverEvent(event);
  }
  void hubLeft() override;
  void leaveDone() override;

 private:
  Doorbell bell_;
  const ControlPlane::Sinks sinks_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Call> calls_ BPS_GUARDED_BY(mutex_);
  std::atomic<uint64_t> callsStarted_{0};  // relaxed, because it orders no other data
  MemberWait wait_ BPS_GUARDED_BY(mutex_);
  std::optional<Roster> roster_ BPS_GUARDED_BY(mutex_);
  std::array<std::optional<Result<std::vector<Blob>>>, kControlOps> answers_ BPS_GUARDED_BY(mutex_);
  Status failure_ BPS_GUARDED_BY(mutex_);
  std::vector<bool> left_ BPS_GUARDED_BY(mutex_);
  bool hubLeft_ BPS_GUARDED_BY(mutex_) = false;
  bool leaving_ BPS_GUARDED_BY(mutex_) = false;
  bool leaveDone_ BPS_GUARDED_BY(mutex_) = false;
  bool interrupted_ BPS_GUARDED_BY(mutex_) = false;
  bool stopped_ BPS_GUARDED_BY(mutex_) = false;
};

}  // namespace bps
