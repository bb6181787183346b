// Turns: messages over one connection of the transport for a given time, and how many bytes per second came of them.
//
// A turn is any number of messages and then one of kEndBytes. The receiver measures, from the end of the first message
// to the end of the last, so that neither the way nor what the sender's kernel has taken ahead counts. Messages get
// larger from turn to turn, as the connection is fast enough for it. Both belong to one thread.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "src/base/deadline.h"
#include "src/net/net.h"
#include "src/net/waiting/waiter.h"

namespace bps {

// What is common to both: buffers, requests under way, and waiting for the oldest.
class Turns {
 public:
  // `look` is asked now and then, and ends the wait when it fails.
  using Look = std::function<Status()>;

 protected:
  static constexpr size_t kEndBytes = 1;
  static constexpr size_t kLeastMessage = 16U << 10, kMostMessage = 4U << 20;
  static constexpr size_t kMostUnderWay = 4;

  Turns(std::unique_ptr<net::Comm> comm, Look look) : comm_(std::move(comm)), look_(std::move(look)) {}
  Status prepare();
  bool full() const { return underWay_.size() >= most_; }
  // The place of the next message.
  uint8_t* place() { return buffer_.get() + (posted_ % kMostUnderWay) * kMostMessage; }
  void posted(net::Request request);
  Result<net::Completion> oldest();
  Status pause(Deadline deadline);

  std::unique_ptr<uint8_t[]> buffer_;  // outlives the connection, which may still use it
  std::unique_ptr<net::Comm> comm_;
  void* memory_ = nullptr;
  std::deque<net::Request> underWay_;
  size_t most_ = 1;

 private:
  Look look_;
  std::optional<Doorbell> bell_;
  std::optional<net::Waiter> waiter_;
  size_t posted_ = 0;
};

class SendTurns : private Turns {
 public:
  static Result<std::unique_ptr<SendTurns>> create(std::unique_ptr<net::Comm> comm, Look look);
  // Sends for that long; fails when the rest is not taken by `deadline`.
  Status turn(std::chrono::milliseconds time, Deadline deadline);

 private:
  SendTurns(std::unique_ptr<net::Comm> comm, Look look) : Turns(std::move(comm), std::move(look)) {}
  Status post(size_t bytes, Deadline deadline);
  Status reap();
  size_t message_ = kLeastMessage;
};

class ReceiveTurns : private Turns {
 public:
  static Result<std::unique_ptr<ReceiveTurns>> create(std::unique_ptr<net::Comm> comm, Look look);
  // Bytes per second.
  Result<double> turn(Deadline deadline);

 private:
  ReceiveTurns(std::unique_ptr<net::Comm> comm, Look look) : Turns(std::move(comm), std::move(look)) {}
  Status fill();
};

}  // namespace bps
