// Flow: sends or receives a list of messages over one end of a connection, with a window of
// requests in flight.
//
// Both sides use the same list. The receiving side compares all bytes, and checks that nothing is
// written after the receive buffer. Like NCCL, a Flow tests only the oldest request. A Flow works
// only inside step() and post(). Used by one thread.
#pragma once
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

// Page-aligned memory that is registered with one connection.
class Buffer {
 public:
  static Result<Buffer> create(Side& side, void* comm, size_t bytes);
  uint8_t* data() const { return bytes_.get(); }
  void* memory() const { return memory_; }
  Status release(Side& side, void* comm);  // deregisters the memory

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> bytes_;
  void* memory_ = nullptr;
};

// Write and check the test data of a message. `seed` determines the data.
void fillPattern(uint8_t* to, size_t bytes, uint64_t seed);
bool hasPattern(const uint8_t* from, size_t bytes, uint64_t seed);

struct Message {
  size_t bytes = 0;
  size_t extraRoom = 0;  // bytes by which the receive buffer is larger than the message
};

struct FlowPlan {
  std::vector<Message> messages;
  size_t window = 8;
  size_t offset = 0;        // bytes by which every buffer is misaligned
  uintptr_t stale = 0;      // the value of *request before each post
  bool checkStale = false;  // true if the post must overwrite the value `stale`
  uint64_t seed = 1;        // determines the data and tag of the first message
};

class Flow {
 public:
  static Result<Flow> create(Side& side, void* comm, bool sends, FlowPlan plan);

  // Posts as many messages as the window permits, and tests the oldest request.
  Result<Progress> step();
  // Only posts messages. Returns kDone if the window is full or all messages are posted.
  Result<Progress> post();
  size_t inFlight() const { return requests_.size(); }
  size_t finished() const { return finished_; }
  Status release() { return buffer_.release(*side_, comm_); }

 private:
  Flow(Side& side, void* comm, bool sends, FlowPlan plan);
  uint8_t* place(size_t index) const;
  Result<bool> postOne();
  Status finish(size_t bytes);

  Side* side_;
  void* comm_;
  bool sends_;
  FlowPlan plan_;
  size_t slotBytes_ = 0;
  Buffer buffer_;
  std::deque<void*> requests_;
  size_t posted_ = 0, finished_ = 0;
};

// Steps the flows until all flows are finished. Fails if no message completes within the timeout.
Status run(Side& side, std::span<Flow> flows);
// Runs one flow over this side's end of a connection.
Status transfer(Side& side, void* comm, FlowPlan plan);

}  // namespace bps::check
