// BpsWork: one all-reduce in flight, or several that belong together, as PyTorch sees them.
//
// A BpsWork keeps the tensors of its calls alive. A thread that waits for the work moves the calls itself. If the
// program asks for a future, a completion thread of the communicator waits for the work and then completes the future.
//
// A work settles when its calls have ended: it then knows its outcome, and does not need the communicator any more. It
// is complete when its future and its waiting threads know, too. Callbacks of the future run in the thread that
// completes it.
//
// Any thread may call any function.
#pragma once
#include <bps/bps_ext.h>
#include <c10/core/Event.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace bps_torch {

class Communicator;

// A call on device memory: the CUDA stream that the call is in, and the event behind the call.
struct DeviceCall {
  c10::Stream stream;
  c10::Event done;
};

class BpsWork final : public c10d::Work {
 public:
  using Clock = std::chrono::steady_clock;

  struct Call {
    c10d::OpType type;
    std::vector<at::Tensor> tensors;
    uint64_t sequence;
    std::chrono::milliseconds timeout;
  };

  BpsWork(std::shared_ptr<Communicator> communicator, Call call);

  bool isCompleted() override;
  bool isSuccess() const override;
  // Waits until the result is there, or, for device memory, makes the current CUDA stream wait. Throws the error of the
  // work. If `timeout` is given and passes first, throws and leaves the work in flight.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void abort() override;
  std::vector<at::Tensor> result() override { return call_.tensors; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return call_.sequence; }
  std::chrono::milliseconds getTimeout() const override { return call_.timeout; }

  // The communicator calls the functions below. It calls one markIssued() before another thread sees the work.
  void markIssued(const bpsHostEvent_t& event) { hostEvent_ = event; }
  void markIssued(DeviceCall call) { device_.emplace(std::move(call)); }
  // Settles the work if its calls have ended. Returns true if the work has settled. Runs no callbacks.
  bool settleIfDone();
  // Waits for calls on host memory, and settles the work.
  void settleWhenDone();
  // Completes a work that has settled.
  void complete();
  bool onDevice() const { return device_.has_value(); }
  Clock::time_point deadline() const { return deadline_; }
  std::string describe() const;

 private:
  void settle(bpsResult_t outcome);

  const std::shared_ptr<Communicator> communicator_;
  const Call call_;
  const Clock::time_point deadline_;
  bpsHostEvent_t hostEvent_{};
  std::optional<DeviceCall> device_;                // null for host memory
  std::atomic<bool> settled_{false};                // exception_ is final once this is set
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // null until the program asks for it; guarded by mutex_
};

}  // namespace bps_torch
