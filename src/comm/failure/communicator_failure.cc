#include "src/comm/failure/communicator_failure.h"

#include "src/base/log.h"

namespace bps {

void CommunicatorFailure::set(const Status& failure) {
  if (first_.set(failure)) {
    logWarn(Subsystem::kColl, "communicator ended: {}", failure.message());
    propagate(failure);
  }
  bell_->ring();
}

void CommunicatorFailure::setByThisRank(const Status& failure) {
  if (first_.set(failure)) propagator_->parentFailed(failure);
  bell_->ring();
}

void CommunicatorFailure::propagate(const Status& failure) {
  propagator_->parentFailed(failure);
  const MutexLock lock(parentMutex_);
  if (parentLink_) parentLink_->parent->childFailed(failure.clone().within(parentLink_->name));
}

void CommunicatorFailure::linkToParent(const CommunicatorFailure& parent, std::string name,
                                       std::function<void()> interrupt) {
  const uint64_t number = parent.propagator_->addChild([this, interrupt = std::move(interrupt)](const Status& failure) {
    if (!first_.set(failure)) return;
    interrupt();
    bell_->ring();
  });
  {
    const MutexLock lock(parentMutex_);
    parentLink_ = {parent.propagator_, number, std::move(name)};
  }
  if (first_.failed()) propagate(first_.get());
}

void CommunicatorFailure::unlink() {
  propagator_->removeParent();
  const MutexLock lock(parentMutex_);
  if (parentLink_) parentLink_->parent->removeChild(parentLink_->number);
  parentLink_.reset();
}

}  // namespace bps
