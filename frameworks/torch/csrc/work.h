// BpsWork: one all-reduce in flight, or several that belong together, as PyTorch sees them.
//
// A BpsWork keeps the tensors of its calls alive. A thread that waits for the work moves the calls itself. If the program
// asks for a future, the communicator's completion thread waits for the work and then completes the future.
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
  // Waits for calls on host memory and completes the work. Does not throw.
  void finishWhenDone();
  // Completes the work if its calls have ended. Returns true if the work is complete.
  bool finishIfDone();
  bool onDevice() const { return device_.has_value(); }
  // True if the work is complete. Does not look at the calls.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  Clock::time_point deadline() const { return deadline_; }
  std::string describe() const;

 private:
  void complete(bpsResult_t outcome);

  const std::shared_ptr<Communicator> communicator_;
  const Call call_;
  const Clock::time_point deadline_;
  bpsHostEvent_t hostEvent_{};
  std::optional<DeviceCall> device_;                // null for host memory
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // null until the program asks for it; guarded by mutex_
  std::atomic<bool> ended_{false};
};

}  // namespace bps_torch
