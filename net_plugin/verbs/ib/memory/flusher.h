// Flusher: makes data that the device has written into GPU memory visible to the GPU.
//
// The completion of a message is written to host memory and may become visible before the message's bytes reach the
// GPU. A read through the same device does not overtake earlier writes, so the Flusher reads one byte back. Each flush
// is a request of this Comm; there is no peer, because the queue pair is connected to itself. Used by the thread of the
// receiving end that owns it.
#pragma once
#include "net_plugin/verbs/ib/queue_pair.h"
#include "src/base/memory.h"

namespace bps::plugin::verbs {

class Flusher final : public Comm {
 public:
  static Result<std::unique_ptr<Flusher>> create(IbvDevice& device);
  ~Flusher() override;

  // Reads the byte at `data`. Returns null if too many reads are in flight.
  Result<Request*> read(uint8_t* data, Registration& memory);

  int eventFd() const { return queue_->eventFd(); }
  Result<int> waitFd() override { return eventFd(); }
  Result<bool> arm() override;

 protected:
  Status progress() override;

 private:
  Flusher(IbvDevice& device, std::unique_ptr<QueuePair> queue) : device_(device), queue_(std::move(queue)) {}

  IbvDevice& device_;
  std::unique_ptr<QueuePair> queue_;
  PageBuffer readTarget_;  // destination of the bytes, which are not used
  Registration* readTargetRegistration_ = nullptr;
};

}  // namespace bps::plugin::verbs
