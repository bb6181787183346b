#include "net_plugin/verbs/ib/queue_comm.h"

#include <sys/epoll.h>

#include <cerrno>

#include "src/base/format.h"

namespace bps::plugin::verbs {

QueueComm::QueueComm(OpenDevice& device, std::unique_ptr<QueuePair> queue, const Terms& terms)
    : device_(device), queue_(std::move(queue)), terms_(terms) {}

QueueComm::~QueueComm() {
  queue_.reset();
  for (const Slot& each : slots_) device_.registry().release(each.own);
  device_.registry().release(grantMemory_);
  device_.registry().release(bounceMemory_);
}

Status QueueComm::start() {
  grants_ = BPS_TRY(PageBuffer::create(kGrants * sizeof(Grant)));
  grantMemory_ = BPS_TRY(device_.registry().add({grants_.data(), grants_.size()}, IBV_ACCESS_LOCAL_WRITE));
  return {};
}

ibv_sge QueueComm::grantPiece(uint64_t index) {
  return {.addr = reinterpret_cast<uintptr_t>(&grantPlace(index)),
          .length = sizeof(Grant),
          .lkey = grantMemory_->localKey()};
}

Result<void*> QueueComm::registerMemory(const Memory& memory) {
  return static_cast<void*>(BPS_TRY(device_.registry().add(memory, memory.onGpu ? accessOnGpu() : access())));
}

void QueueComm::deregisterMemory(void* memory) { device_.registry().release(static_cast<Registration*>(memory)); }

Status QueueComm::openBounce() {
  if (bounceMemory_ != nullptr) return {};
  bounce_ = BPS_TRY(PageBuffer::create(kBounceBytes * slots_.size()));
  bounceMemory_ = BPS_TRY(device_.registry().add({bounce_.data(), bounce_.size()}, access()));
  return {};
}

Result<QueueComm::View> QueueComm::viewOf(uint64_t index) {
  const Request& request = requests().at(index);
  if (request.bytes == 0) return View{};
  const auto* known = static_cast<const Registration*>(request.memory);
  if (known == nullptr || !known->covers(request.data, request.bytes)) {
    if (known != nullptr && known->onGpu)
      return failure(
          Code::kInvalidArgument,
          "a message of {} bytes at {:#x} lies not in the GPU memory that was registered for it, {:#x} to {:#x}",
          request.bytes, reinterpret_cast<uintptr_t>(request.data), known->begin, known->end);
    if (request.bytes <= kBounceBytes) {
      BPS_TRY(openBounce());
      slot(index).bounced = true;
      return View{bouncePlace(index), bounceMemory_->localKey(), bounceMemory_->remoteKey(), false};
    }
    known = slot(index).own = BPS_TRY(device_.registry().add({request.data, request.bytes}, access()));
  }
  return View{request.data, known->localKey(), known->remoteKey(), known->onGpu};
}

uint8_t* QueueComm::bouncePlace(uint64_t index) {
  return slot(index).bounced ? bounce_.data() + index % slots_.size() * kBounceBytes : nullptr;
}

void QueueComm::releaseView(uint64_t index) {
  device_.registry().release(slot(index).own);
  slot(index) = {};
}

Status QueueComm::peerClosed() const { return failure(Code::kRemote, "{} closed the connection", peer()); }

Status QueueComm::brokeRules(const std::string& how) const {
  return failure(Code::kRemote, "{} broke the rules of the connection: {}", peer(), how);
}

void QueueComm::look() {
  if (looksGone_ > 0) {
    ++looksGone_;
    return;
  }
  for (;;) {
    const Lifeline::Heard outcome = lifeline_->hear(notice_);
    if (outcome == Lifeline::Heard::kNothing) return;
    if (outcome == Lifeline::Heard::kHangup) {
      ++looksGone_;
      return;
    }
    Result<Notice> notice = parseNotice(notice_);
    if (wrong_.ok()) wrong_ = notice.ok() ? heard(std::move(notice).value()) : brokeRules(notice.error().message());
  }
}

Status QueueComm::drain() {
  for (;;) {
    Result<std::span<const ibv_wc>> polled = queue_->poll();
    if (!polled.ok()) {
      look();
      return looksGone_ > 0 ? peerClosed() : std::move(polled).status().within("connection to " + peer());
    }
    const std::span<const ibv_wc> batch = std::move(polled).value();
    if (batch.empty()) return {};
    for (const ibv_wc& each : batch) BPS_TRY(completed(each));
  }
}

Status QueueComm::progress() {
  if (pace_.isDue()) look();
  Status drained = drain();
  BPS_TRY(verdict());  // also when the queue pair has failed: what the peer has received is sent
  BPS_TRY(std::move(drained));
  if (!wrong_.ok()) return wrong_.clone();
  if (looksGone_ > 1) return peerClosed();
  return looksGone_ > 0 ? Status() : postMore();
}

Result<int> QueueComm::waitFd() {
  if (epoll_) return epoll_.get();
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return systemFailure("epoll_create1", errno);
  for (const int fd : {queue_->eventFd(), lifeline_->fd()}) {
    Status added = wakeOn(fd);
    if (added.ok()) continue;
    epoll_ = UniqueFd();
    return added;
  }
  return epoll_.get();
}

Status QueueComm::wakeOn(int fd) {
  epoll_event event{};
  event.events = fd == lifeline_->fd() ? EPOLLIN | EPOLLRDHUP : EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return systemFailure("epoll_ctl", errno);
  return {};
}

Result<bool> QueueComm::arm() {
  if (firstFailure().ok()) note(progress());
  if (firstFailure().ok() && BPS_TRY(queue_->arm())) note(progress());
  if (pace_.isDueBeforeSleep() && firstFailure().ok()) look();
  if (requests().hasDone() || more_) return true;
  if (!firstFailure().ok()) {
    if (!requests().idle()) return true;  // test() tells
    return firstFailure().clone();
  }
  if (looksGone_ == 0) return false;
  if (!requests().idle()) return true;
  note(peerClosed());
  return firstFailure().clone();
}

}  // namespace bps::plugin::verbs
