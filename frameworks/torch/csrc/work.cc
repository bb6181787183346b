#include "work.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "communicator.h"

namespace bps_torch {
namespace {

const char* titleOf(c10d::OpType type) {
  return type == c10d::OpType::ALLREDUCE ? "bps:all_reduce" : "bps:all_reduce_coalesced";
}

c10::intrusive_ptr<c10::ivalue::Future> makeFuture(const std::vector<at::Tensor>& tensors, bool onDevice) {
  std::vector<c10::Device> devices;
  if (onDevice) devices.push_back(tensors.front().device());
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
}

}  // namespace

BpsWork::BpsWork(std::shared_ptr<Communicator> communicator, Call call)
    : Work(communicator->rank(), call.type, titleOf(call.type), call.tensors),
      communicator_(std::move(communicator)),
      call_(std::move(call)),
      deadline_(Clock::now() + call_.timeout) {}

std::string BpsWork::describe() const {
  int64_t elements = 0;
  for (const at::Tensor& tensor : call_.tensors) elements += tensor.numel();
  const char* type = call_.tensors.empty() ? "elements" : c10::toString(call_.tensors.front().scalar_type());
  if (call_.tensors.size() == 1) return c10::str("all_reduce ", call_.sequence, " of ", elements, " ", type);
  return c10::str("all_reduce ", call_.sequence, " of ", call_.tensors.size(), " tensors, ", elements, " ", type);
}

void BpsWork::settle(bpsResult_t outcome) {
  const std::exception_ptr error = outcome == bpsSuccess ? nullptr : communicator_->errorOf(*this, outcome);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (settled_) return;
  exception_ = error;
  settled_ = true;
}

bool BpsWork::settleIfDone() {
  if (settled_) return true;
  if (!onDevice()) {
    if (const bpsResult_t state = bpsHostEventQuery(&hostEvent_); state != bpsInProgress) settle(state);
  } else if (device_->done.query()) {
    settle(bpsSuccess);
  } else if (const bpsResult_t failed = communicator_->asyncError(); failed != bpsSuccess) {
    settle(failed);
  }
  return settled_;
}

void BpsWork::settleWhenDone() {
  if (!settled_) settle(bpsHostEventSynchronize(&hostEvent_));
}

void BpsWork::complete() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (completed_) return;
    completed_ = true;
    future = future_;
    if (recordFunctionEndCallback_) {
      recordFunctionEndCallback_();
      recordFunctionEndCallback_ = nullptr;
    }
  }
  cv_.notify_all();
  // The callbacks of the future run here, without the mutex, because they may ask for the state of the work.
  if (future == nullptr || onDevice()) return;
  if (exception_) future->setError(exception_);
  else future->markCompleted(c10::IValue(call_.tensors));
}

bool BpsWork::isCompleted() {
  if (!settleIfDone()) return false;
  complete();
  return true;
}

bool BpsWork::isSuccess() const { return settled_ && exception_ == nullptr; }

void BpsWork::synchronize() {
  if (!onDevice()) return;
  const c10::impl::VirtualGuardImpl guard(device_->stream.device_type());
  device_->done.block(guard.getStream(device_->stream.device()));
}

bool BpsWork::wait(std::chrono::milliseconds timeout) {
  if (onDevice()) {
    if (!isCompleted()) return synchronize(), true;
  } else if (timeout == kNoTimeout) {
    settleWhenDone();
    complete();
  } else if (!isCompleted()) {
    communicator_->completeLater(c10::intrusive_ptr<BpsWork>::reclaim_copy(this));
    std::unique_lock<std::mutex> lock(mutex_);
    if (!cv_.wait_for(lock, timeout, [&] { return completed_; }))
      C10_THROW_ERROR(DistBackendError, c10::str(communicator_->describe(*this), ": not complete after ",
                                                 timeout.count(), " ms, the time-out of wait()"));
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void BpsWork::abort() { communicator_->revoke(describe() + " was aborted by this process"); }

// As with NCCL, the future of a call on device memory is complete at once, and its values are ready when the call's
// stream has passed the call. A failure of such a call throws in the next call or wait.
c10::intrusive_ptr<c10::ivalue::Future> BpsWork::getFuture() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (future_) return future_;
    future_ = makeFuture(call_.tensors, onDevice());
    if (onDevice()) {
      const c10::StreamGuard inStream(device_->stream);  // the future waits for what is in the current stream
      future_->markCompleted(c10::IValue(call_.tensors));
    } else if (completed_) {
      if (exception_) future_->setError(exception_);
      else future_->markCompleted(c10::IValue(call_.tensors));
    }
    if (future_->completed()) return future_;
  }
  communicator_->completeLater(c10::intrusive_ptr<BpsWork>::reclaim_copy(this));
  return future_;
}

}  // namespace bps_torch
