// FakeLink: one direction of a connection in memory. The test may act as the receiver with take(), or as the sender
// with deliver().
//
// FakeLink copies a message only on delivery. So a sender that changes its buffer before the send is complete fails the
// test.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace bps::test {

class FakeLink;

struct FakeRequest {
  FakeLink* link = nullptr;
  uint8_t* data = nullptr;
  size_t bytes = 0;
  void* memory = nullptr;
  bool sends = false, flushes = false, done = false;
  size_t received = 0;
};

class FakeLink {
 public:
  using Message = std::vector<uint8_t>;
  using Requests = std::list<FakeRequest>;

  bool full = false;       // if true, the plugin accepts no further request
  bool flushHeld = false;  // if true, flushes do not end
  bool closed = false;     // if true, one end has closed
  std::string failure;     // if not empty, every function fails with this text
  Requests sends, receives;
  size_t flushesStarted = 0;

  size_t sendsInFlight() const { return count(sends); }
  size_t receivesInFlight() const { return count(receives); }
  // Completes the oldest send, and returns its message.
  Message take() {
    FakeRequest* send = oldest(sends);
    if (send == nullptr) {
      ADD_FAILURE() << "no message has been sent";
      return {};
    }
    send->done = true;
    return Message(send->data, send->data + send->bytes);
  }
  // Completes the oldest receive with this message.
  void deliver(const Message& message) {
    FakeRequest* receive = oldest(receives);
    ASSERT_NE(receive, nullptr) << "no receive has been posted";
    ASSERT_LE(message.size(), receive->bytes) << "the message is longer than the room for it";
    std::copy(message.begin(), message.end(), receive->data);
    receive->received = message.size();
    receive->done = true;
  }
  // Delivers messages while both a send and a receive are posted.
  void move() {
    while (oldest(sends) != nullptr && oldest(receives) != nullptr) deliver(take());
  }

 private:
  static size_t count(const Requests& requests) {
    return static_cast<size_t>(std::count_if(requests.begin(), requests.end(), [](const auto& r) { return !r.done; }));
  }
  static FakeRequest* oldest(Requests& requests) {
    const auto found = std::find_if(requests.begin(), requests.end(), [](const auto& r) { return !r.done; });
    return found == requests.end() ? nullptr : &*found;
  }
};

struct FakeConnection {
  FakeLink there, back;  // `back` is the direction that reverse() gives
  bool accepted = false;
};

}  // namespace bps::test
