// Flusher: makes what the device wrote into a GPU's memory visible there. A message has arrived when its completion
// lies in host memory, which does not say that its bytes have reached the GPU; but no read overtakes the writes before
// it, so a byte is read back through the same device. Each flush is a message of its Comm, which no peer has a part in:
// the queue pair is connected to itself.
#pragma once
#include "net_plugin/verbs/ib/queue_pair.h"
#include "src/base/memory.h"

namespace bps::plugin::verbs {

class Flusher final : public Comm {
 public:
  static Result<std::unique_ptr<Flusher>> create(IbvDevice& device);
  ~Flusher() override;

  // Reads the byte at `data`. A null request: too many are under way.
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
  PageBuffer readTarget_;  // of the bytes, which nobody looks at
  Registration* readTargetRegistration_ = nullptr;
};

}  // namespace bps::plugin::verbs
