// AnswerSender: sends the sums of one owner back to one machine, in the order of the chunks. An
// AnswerSender belongs to a SumService and runs on the thread of that service.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/net/message_queue.h"
#include "src/wire/data_header.h"

namespace bps {

class AnswerSender {
 public:
  // `results` is the ring of slots from which this owner's answers are sent.
  static Result<std::unique_ptr<AnswerSender>> create(std::unique_ptr<net::Comm> answer, size_t depth,
                                                      const PageBuffer& results, size_t headerBytes = kDataHeaderBytes);

  // Queues the answer to round `pushed()`. The payload must stay valid until done() is greater than
  // the round's number. If needsRegistered() is true, the payload must lie in `results`.
  void push(const uint8_t* payload, size_t bytes, std::optional<uint32_t> checksum,
            std::optional<ParamClock> clock = std::nullopt);  // `headerBytes` has room for the clock
  Result<bool> step() {
    const bool moved = queue_.step();
    if (!queue_.failure().ok()) return queue_.failure().clone();
    return moved;
  }
  // True if the transport can send only from registered memory, which is `results`.
  bool needsRegistered() const { return memory_ != nullptr; }
  uint64_t pushed() const { return pushed_; }
  uint64_t bytesPushed() const { return bytesPushed_; }  // of payloads
  uint64_t done() const { return queue_.done() / 2; }

  net::Comm& comm() { return queue_.comm(); }

 private:
  AnswerSender(std::unique_ptr<net::Comm> answer, size_t depth, size_t headerBytes)
      : queue_(std::move(answer), net::MessageQueue::Direction::kSend), depth_(depth), slotBytes_(headerBytes) {}

  PageBuffer headerBytes_;  // declared before queue_, whose connection uses this memory
  net::MessageQueue queue_;
  size_t depth_, slotBytes_;
  void* memory_ = nullptr;
  void* headerMemory_ = nullptr;
  uint64_t pushed_ = 0, bytesPushed_ = 0;
};

}  // namespace bps
