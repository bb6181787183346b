#include "net_plugin/verbs/ib/queue_comm.h"

#include <sys/epoll.h>

#include <cerrno>

#include "src/base/format.h"

namespace bps::plugin::verbs {

QueueComm::QueueComm(IbvDevice& device, std::unique_ptr<QueuePair> queue, const ConnectionParams& params)
    : device_(device), queue_(std::move(queue)), params_(params) {}

QueueComm::~QueueComm() {
  queue_.reset();
  for (const Slot& each : slots_) device_.registry().release(each.temporary);
  device_.registry().release(grantMemory_);
  device_.registry().release(bounceMemory_);
}

Status QueueComm::start() {
  grants_ = BPS_TRY(PageBuffer::create(kGrants * sizeof(Grant)));
  grantMemory_ = BPS_TRY(device_.registry().add({grants_.data(), grants_.size()}, IBV_ACCESS_LOCAL_WRITE));
  return {};
}

ibv_sge QueueComm::grantSge(uint64_t index) {
  return {.addr = reinterpret_cast<uintptr_t>(&grantSlot(index)),
          .length = sizeof(Grant),
          .lkey = grantMemory_->localKey()};
}

Result<void*> QueueComm::registerMemory(const MemoryRegion& memory) {
  return static_cast<void*>(BPS_TRY(device_.registry().add(memory, memory.onGpu ? accessOnGpu() : access())));
}

void QueueComm::deregisterMemory(void* memory) { device_.registry().release(static_cast<Registration*>(memory)); }

Status QueueComm::createBounceBuffers() {
  if (bounceMemory_ != nullptr) return {};
  bounce_ = BPS_TRY(PageBuffer::create(kBounceBytes * slots_.size()));
  bounceMemory_ = BPS_TRY(device_.registry().add({bounce_.data(), bounce_.size()}, access()));
  return {};
}

Result<QueueComm::DeviceBuffer> QueueComm::resolveBuffer(uint64_t index) {
  const Request& request = requests().at(index);
  if (request.bytes == 0) return DeviceBuffer{};
  const auto* known = static_cast<const Registration*>(request.memory);
  if (known == nullptr || !known->covers(request.data, request.bytes)) {
    if (known != nullptr && known->onGpu)
      return failure(Code::kInvalidArgument,
                     "a message of {} bytes at {:#x} is outside the GPU memory of its registration, {:#x} to {:#x}",
                     request.bytes, reinterpret_cast<uintptr_t>(request.data), known->begin, known->end);
    if (request.bytes <= kBounceBytes) {
      BPS_TRY(createBounceBuffers());
      slot(index).bounced = true;
      return DeviceBuffer{bounceSlot(index), bounceMemory_->localKey(), bounceMemory_->remoteKey(), false};
    }
    known = slot(index).temporary = BPS_TRY(device_.registry().add({request.data, request.bytes}, access()));
  }
  return DeviceBuffer{request.data, known->localKey(), known->remoteKey(), known->onGpu};
}

uint8_t* QueueComm::bounceSlot(uint64_t index) {
  return slot(index).bounced ? bounce_.data() + index % slots_.size() * kBounceBytes : nullptr;
}

void QueueComm::releaseBuffer(uint64_t index) {
  device_.registry().release(slot(index).temporary);
  slot(index) = {};
}

Status QueueComm::peerClosed() const { return failure(Code::kRemote, "{} closed the connection", peer()); }

Status QueueComm::protocolError(const std::string& how) const {
  return failure(Code::kRemote, "{} violated the protocol: {}", peer(), how);
}

void QueueComm::checkHangup() {
  if (checksSinceHangup_ > 0) {
    ++checksSinceHangup_;
    return;
  }
  for (;;) {
    const LivenessSocket::Event outcome = livenessSocket_->receiveMessage(notice_);
    if (outcome == LivenessSocket::Event::kNothing) return;
    if (outcome == LivenessSocket::Event::kHangup) {
      ++checksSinceHangup_;
      return;
    }
    Result<Notice> notice = parseNotice(notice_);
    if (noticeError_.ok())
      noticeError_ = notice.ok() ? onNotice(std::move(notice).value()) : protocolError(notice.error().message());
  }
}

Status QueueComm::drain() {
  for (;;) {
    Result<std::span<const ibv_wc>> polled = queue_->poll();
    if (!polled.ok()) {
      checkHangup();
      return checksSinceHangup_ > 0 ? peerClosed() : std::move(polled).status().within("connection to " + peer());
    }
    const std::span<const ibv_wc> batch = std::move(polled).value();
    if (batch.empty()) return {};
    for (const ibv_wc& each : batch) BPS_TRY(onCompletion(each));
  }
}

Status QueueComm::progress() {
  if (hangupCheck_.isDue()) checkHangup();
  Status drained = drain();
  BPS_TRY(applyNotices());  // called even if the queue pair has failed, because received messages are done
  BPS_TRY(std::move(drained));
  if (!noticeError_.ok()) return noticeError_.clone();
  if (checksSinceHangup_ > 1) return peerClosed();
  return checksSinceHangup_ > 0 ? Status() : postMore();
}

Result<int> QueueComm::waitFd() {
  if (epoll_) return epoll_.get();
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return systemFailure("epoll_create1", errno);
  for (const int fd : {queue_->eventFd(), livenessSocket_->fd()}) {
    Status added = addToEpoll(fd);
    if (added.ok()) continue;
    epoll_ = UniqueFd();
    return added;
  }
  return epoll_.get();
}

Status QueueComm::addToEpoll(int fd) {
  epoll_event event{};
  event.events = fd == livenessSocket_->fd() ? EPOLLIN | EPOLLRDHUP : EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return systemFailure("epoll_ctl", errno);
  return {};
}

Result<bool> QueueComm::arm() {
  if (firstFailure().ok()) keepFirstFailure(progress());
  if (firstFailure().ok() && BPS_TRY(queue_->arm())) keepFirstFailure(progress());
  if (hangupCheck_.isDueBeforeSleep() && firstFailure().ok()) checkHangup();
  if (requests().hasDone() || hasMoreToMove_) return true;
  if (!firstFailure().ok()) {
    if (!requests().idle()) return true;  // test() reports the failure
    return firstFailure().clone();
  }
  if (checksSinceHangup_ == 0) return false;
  if (!requests().idle()) return true;
  keepFirstFailure(peerClosed());
  return firstFailure().clone();
}

}  // namespace bps::plugin::verbs
