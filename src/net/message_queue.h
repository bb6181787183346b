// MessageQueue: the messages of one one-way connection, in order: queued, posted when the plugin takes them, done.
//
//   queued >= posted >= done          message i is done iff i < done()
//
// Belongs to the thread that owns the connection. The memory of a message belongs to the queue until it is done.
#pragma once
#include <deque>
#include <memory>

#include "src/base/status.h"
#include "src/net/net.h"

namespace bps::net {

struct Message {
  void* data = nullptr;  // read only, on a sending connection
  size_t bytes = 0;      // of a receive: the room
  void* memory = nullptr;
};

class MessageQueue {
 public:
  enum class Direction { kSend, kReceive };
  MessageQueue(std::unique_ptr<Comm> comm, Direction direction) : comm_(std::move(comm)), direction_(direction) {}

  void push(const Message& message) { waiting_.push_back(message); }

  // Posts what can be posted and completes what is complete; true when anything moved. Never blocks. After a failure
  // what had completed before it is still counted, and nothing more moves.
  bool step();
  // The failure that ended this queue, or success.
  const Status& failure() const { return failure_; }

  uint64_t done() const { return done_; }
  bool idle() const { return waiting_.empty() && posted_.empty(); }
  // Of a receive that step() has just completed, oldest first: call once per completed message, in order.
  size_t takeReceivedBytes();

  Comm& comm() { return *comm_; }

 private:
  struct Posted {
    Request request;
    size_t bytes;
  };
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
