// CommunicatorFailure: keeps the failure of one communicator on this rank and links it to the
// communicators that fail together with it. A failure rings the doorbell, so that the progress
// thread sees the failure.
//
// Threads: any thread may call any method.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/io/fd.h"
#include "src/comm/failure/failure_propagator.h"
#include "src/comm/failure/first_error.h"

namespace bps {

class CommunicatorFailure {
 public:
  // `childFailed` receives the failures of child communicators, until unlink().
  CommunicatorFailure(std::shared_ptr<Doorbell> bell, FailurePropagator::Listener childFailed)
      : bell_(std::move(bell)), propagator_(std::make_shared<FailurePropagator>(std::move(childFailed))) {}

  const FirstError& firstError() const { return first_; }
  bool failed() const { return first_.failed(); }
  Status get() const { return first_.get(); }

  // Records that the communicator has failed, logs the failure and tells the parent and the
  // children.
  void set(const Status& failure);
  // Records that this rank ends the communicator, and tells only the children. The parent learns of
  // the failure from the hub.
  void setByThisRank(const Status& failure);

  // Makes this communicator a child of `parent`: from now on both fail together. Messages to the
  // parent begin with `name`. A failure of the parent also calls `interrupt`.
  void linkToParent(const CommunicatorFailure& parent, std::string name, std::function<void()> interrupt);
  // Removes the listeners of this communicator. Afterwards neither `childFailed` nor `interrupt` is
  // called.
  void unlink();

 private:
  struct ParentLink {
    std::shared_ptr<FailurePropagator> parent;
    uint64_t number;
    std::string name;
  };
  void propagate(const Status& failure);

  FirstError first_;
  const std::shared_ptr<Doorbell> bell_;
  const std::shared_ptr<FailurePropagator> propagator_;  // shared with children
  Mutex parentMutex_;                                    // taken before the parent propagator's mutex
  std::optional<ParentLink> parentLink_ BPS_GUARDED_BY(parentMutex_);
};

}  // namespace bps
