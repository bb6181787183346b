// Flusher: makes data that the device has written into GPU memory visible to the GPU.
//
// The device writes the completion of a message to host memory. The completion may become visible
// before the bytes of the message reach the GPU. A read through the same device does not overtake
// earlier writes, so the Flusher reads one byte of the message back. Each flush is a request of
// this Comm. The queue pair is connected to itself, so a Flusher has no peer. A Flusher belongs to
// a receiving end and is used by the thread of that end.
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
  PageBuffer readTarget_;  // destination of the bytes that are read and not used
  Registration* readTargetRegistration_ = nullptr;
};

}  // namespace bps::plugin::verbs
