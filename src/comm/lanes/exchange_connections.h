// ExchangeSender and ExchangeReceiver: the two ends of one step of the exchange path
// (exchange_path.h). They belong to an ExchangePath and never block.
//
// A connection carries two messages for every chunk. The first message consists of the headers of
// the contributions, and a byte with the size of each header precedes the header. The second message
// consists of the payloads of these contributions, which have equal sizes. The headers are those of
// the machines that made the contributions. So a forwarded contribution keeps its checksums.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/comm/lanes/slot_ring.h"
#include "src/net/message_queue.h"
#include "src/wire/data_header.h"

namespace bps {

// The contribution of one machine to a chunk.
struct ExchangeBlock {
  DataHeaderBytes header;
  uint8_t headerBytes = 0;
  bool first = false;  // true for the first chunk of its call
  CallInfo call;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
};

struct ExchangeShape {
  size_t blocks = 0;         // contributions in one message
  size_t slots = 0;          // chunks in flight
  size_t maxChunkBytes = 0;  // of one contribution
  bool checksum = false;     // every contribution carries a checksum
};

class ExchangeSender {
 public:
  static Result<std::unique_ptr<ExchangeSender>> create(std::unique_ptr<net::Comm> comm, const ExchangeShape& shape);

  // Copies a contribution into the next message. The caller adds shape.blocks contributions of equal
  // size, and then calls send().
  void add(const ExchangeBlock& block);
  void send();
  // Sends a contribution without a copy. Its data must stay valid until done() is greater than the
  // number of this message.
  Status sendDirectly(const ExchangeBlock& block);
  bool step();

  uint64_t sent() const { return sent_; }
  uint64_t done() const { return queue_.done() / 2; }
  bool idle() const { return queue_.idle(); }
  const Status& status() const { return queue_.failure(); }
  net::Comm& comm() { return queue_.comm(); }

 private:
  explicit ExchangeSender(std::unique_ptr<net::Comm> comm)
      : queue_(std::move(comm), net::MessageQueue::Direction::kSend) {}
  void addHeader(const ExchangeBlock& block);
  void pushHeaders();

  SlotRing headers_, payloads_;  // declared before queue_, whose connection uses this memory
  net::MessageQueue queue_;
  std::deque<std::pair<uint64_t, void*>> registered_;  // messages whose memory is registered for them alone
  uint64_t sent_ = 0;
  size_t headerBytes_ = 0, payloadBytes_ = 0;  // of the next message
};

// Receives the messages of one connection into a ring of slots, in the order of the chunks.
//
//   released <= arrived <= posted receives <= released + slots
class ExchangeReceiver {
 public:
  static Result<std::unique_ptr<ExchangeReceiver>> create(std::unique_ptr<net::Comm> comm, const ExchangeShape& shape);

  // Receives what has arrived, and returns whether anything moved. Messages below `released` no
  // longer need their slots. After a failure, messages that have arrived stay available.
  bool step(uint64_t released);
  uint64_t arrived() const { return arrived_; }
  // The contributions in a message that has arrived and is not released.
  const std::vector<ExchangeBlock>& message(uint64_t number) const { return messages_[number % shape_.slots]; }
  // Sets whether a call waits for the next message.
  void setNeeded(bool needed);

  const Status& status() const { return failure_; }
  net::Comm& comm() { return queue_.comm(); }

 private:
  ExchangeReceiver(std::unique_ptr<net::Comm> comm, const ExchangeShape& shape);
  Status take();
  Status takeHeader(std::span<const uint8_t>& headers, size_t index);

  const ExchangeShape shape_;
  SlotRing headers_, payloads_;  // declared before queue_, whose connection uses this memory
  net::MessageQueue queue_;
  std::vector<std::vector<ExchangeBlock>> messages_;  // by slot
  std::vector<CallInfo> calls_;                       // the latest call of each machine
  uint64_t posted_ = 0, arrived_ = 0;
  Status failure_;
};

}  // namespace bps
