// Mailbox: all that the callers' threads and the control thread of one ControlPlane share.
//
// Memory ordering: everything is guarded by one mutex; the control thread is woken through a Doorbell and callers
// through a condition variable. Calls go to the control thread as functions on the ControlNode, in order.
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

  // Callers.
  void post(Call call);
  Status waitJoin(Deadline deadline, Roster& roster);
  // Posts a round and waits for its answer.
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

  // The control thread.
  int wakeFd() const { return bell_.fd(); }
  // `stopped`: stop() was called, and what was called before it has been taken now or earlier.
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
  std::atomic<uint64_t> callsStarted_{0};  // a number by itself: no order with anything else
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
