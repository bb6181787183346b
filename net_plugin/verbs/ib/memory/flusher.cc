#include "net_plugin/verbs/ib/memory/flusher.h"

namespace bps::plugin::verbs {

Result<std::unique_ptr<Flusher>> Flusher::create(IbvDevice& device) {
  // Some devices require at least one receive.
  const QueuePair::Depths depths{.sends = RequestRing::kCapacity, .receives = 1};
  std::unique_ptr<QueuePair> queue = BPS_TRY(QueuePair::create(device, device.gid(), depths));
  std::unique_ptr<Flusher> made(new Flusher(device, std::move(queue)));
  BPS_TRY(made->queue_->connect(made->queue_->info(), IBV_ACCESS_REMOTE_READ));
  made->readTarget_ = BPS_TRY(PageBuffer::create(kPageBytes));
  made->readTargetRegistration_ =
      BPS_TRY(device.registry().add({made->readTarget_.data(), made->readTarget_.size()}, IBV_ACCESS_LOCAL_WRITE));
  return made;
}

Flusher::~Flusher() {
  queue_.reset();
  device_.registry().release(readTargetRegistration_);
}

Result<Request*> Flusher::read(uint8_t* data, Registration& memory) {
  Request* request = BPS_TRY(post(data, 1, &memory));
  if (request == nullptr) return nullptr;
  ibv_sge place{reinterpret_cast<uintptr_t>(readTarget_.data()), 1, readTargetRegistration_->localKey()};
  ibv_send_wr read{};
  read.sg_list = &place;
  read.num_sge = 1;
  read.opcode = IBV_WR_RDMA_READ;
  read.send_flags = IBV_SEND_SIGNALED;
  read.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(data);
  read.wr.rdma.rkey = memory.remoteKey();
  keepFirstFailure(queue_->send(read));
  return request;
}

Status Flusher::progress() {
  for (;;) {
    Result<std::span<const ibv_wc>> polled = queue_->poll();
    if (!polled.ok()) return std::move(polled).status().within("flushing GPU memory through " + device_.port().name());
    const std::span<const ibv_wc> batch = std::move(polled).value();
    if (batch.empty()) return {};
    for (size_t i = 0; i < batch.size(); ++i) requests().finishFront(requests().front().bytes);
  }
}

Result<bool> Flusher::arm() {
  if (firstFailure().ok()) keepFirstFailure(progress());
  if (firstFailure().ok() && BPS_TRY(queue_->arm())) keepFirstFailure(progress());
  if (requests().hasDone()) return true;
  return !firstFailure().ok() && !requests().idle();  // test() reports the failure
}

}  // namespace bps::plugin::verbs
