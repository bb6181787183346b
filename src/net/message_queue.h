// MessageQueue: sends or receives messages in order on one one-way connection. The connection belongs to the queue.
//
// A message waits in the queue until the plugin accepts it; then the message is posted, and later it is done. Messages
// complete in order: message i is done if and only if i < done(). The caller must keep the memory of a message valid
// until the message is done. Only one thread at a time uses a MessageQueue.
#pragma once
#include <deque>
#include <memory>

#include "src/base/status.h"
#include "src/net/net.h"

namespace bps::net {

struct Message {
  void* data = nullptr;    // a queue that sends only reads this memory
  size_t bytes = 0;        // for a receive, the size of the buffer
  void* memory = nullptr;  // the registration
};

class MessageQueue {
 public:
  enum class Direction { kSend, kReceive };
  MessageQueue(std::unique_ptr<Comm> comm, Direction direction) : comm_(std::move(comm)), direction_(direction) {}

  void push(const Message& message) { waiting_.push_back(message); }

  // Posts and completes as many messages as possible without blocking. Returns true if at least one message was posted
  // or completed. After a failure step() does nothing. Messages that were completed before the failure stay counted in
  // done().
  bool step() { return hasWork() && move(); }
  // The failure that ended this queue. Success if the queue has not failed.
  const Status& failure() const { return failure_; }

  uint64_t done() const { return done_; }
  bool idle() const { return waiting_.empty() && posted_.empty(); }
  // Returns the size of the oldest completed receive whose size was not taken yet. Call takeReceivedBytes() once for
  // each completed receive.
  size_t takeReceivedBytes();

  Comm& comm() { return *comm_; }

 private:
  struct Posted {
    Request request;
    size_t bytes;
  };
  bool hasWork() const { return !waiting_.empty() || (!posted_.empty() && comm_->awake()); }
  bool move();
  void fail(Status why);
  Result<bool> post();
  Result<bool> complete();

  std::unique_ptr<Comm> comm_;
  Direction direction_;
  std::deque<Message> waiting_;
  std::deque<Posted> posted_;
  std::deque<size_t> received_;
  uint64_t done_ = 0;
  Status failure_;
};

}  // namespace bps::net
