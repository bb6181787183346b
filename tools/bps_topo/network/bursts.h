// BurstSender and BurstReceiver: send bursts of messages over one data connection and measure the
// bytes per second.
//
// A burst is any number of messages followed by one message of kEndBytes. The receiver measures
// from the end of the first message to the end of the last message before kEndBytes. The measured
// time therefore excludes the latency and the data that the sender's kernel buffers. On a fast
// connection, the messages of later bursts are larger. Each object must be used by one thread.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "src/base/deadline.h"
#include "src/net/net.h"
#include "src/net/waiter.h"

namespace bps {

// The code that BurstSender and BurstReceiver share: buffers, requests in flight, and the wait for
// the oldest request.
class BurstBase {
 public:
  // A function that is called periodically during a wait. If the function fails, the wait ends with
  // its failure.
  using AbortCheck = std::function<Status()>;

 protected:
  static constexpr size_t kEndBytes = 1;
  static constexpr size_t kMinMessageBytes = 16U << 10, kMaxMessageBytes = 4U << 20;
  static constexpr size_t kMaxInFlight = 4;

  BurstBase(std::unique_ptr<net::Comm> comm, AbortCheck look) : comm_(std::move(comm)), abortCheck_(std::move(look)) {}
  Status prepare();
  bool full() const { return inFlight_.size() >= maxInFlight_; }
  // Returns the buffer of the next message.
  uint8_t* nextBuffer() { return buffer_.get() + (posted_ % kMaxInFlight) * kMaxMessageBytes; }
  void posted(net::Request request);
  Result<net::Completion> oldest();
  Status pause(Deadline deadline);

  std::unique_ptr<uint8_t[]> buffer_;  // outlives the connection, which may still use it
  std::unique_ptr<net::Comm> comm_;
  void* memory_ = nullptr;
  std::deque<net::Request> inFlight_;
  size_t maxInFlight_ = 1;

 private:
  AbortCheck abortCheck_;
  std::optional<Doorbell> bell_;
  std::optional<net::Waiter> waiter_;
  size_t posted_ = 0;
};

class BurstSender : private BurstBase {
 public:
  static Result<std::unique_ptr<BurstSender>> create(std::unique_ptr<net::Comm> comm, AbortCheck look);
  // Sends messages for `time`. Fails if any message is incomplete at `deadline`.
  Status burst(std::chrono::milliseconds time, Deadline deadline);

 private:
  BurstSender(std::unique_ptr<net::Comm> comm, AbortCheck look) : BurstBase(std::move(comm), std::move(look)) {}
  Status post(size_t bytes, Deadline deadline);
  Status reap();
  size_t message_ = kMinMessageBytes;
};

class BurstReceiver : private BurstBase {
 public:
  static Result<std::unique_ptr<BurstReceiver>> create(std::unique_ptr<net::Comm> comm, AbortCheck look);
  // Receives one burst. Returns the bytes per second of the burst.
  Result<double> burst(Deadline deadline);

 private:
  BurstReceiver(std::unique_ptr<net::Comm> comm, AbortCheck look) : BurstBase(std::move(comm), std::move(look)) {}
  Status fill();
};

}  // namespace bps
