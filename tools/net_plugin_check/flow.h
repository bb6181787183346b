// Flow: a list of messages through one end of a connection, in posting order, a window of them at a time; what comes is
// compared with what was sent, byte by byte, and behind the posted room nothing may change. Both sides make the same
// list. Moves only inside step(), and tests the oldest request only, as NCCL does.
#pragma once
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

// Memory of page alignment, registered with one comm.
class Buffer {
 public:
  static Result<Buffer> create(Side& side, void* comm, size_t bytes);
  uint8_t* data() const { return bytes_.get(); }
  void* memory() const { return memory_; }
  Status release(Side& side, void* comm);  // deregisters

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> bytes_;
  void* memory_ = nullptr;
};

// The bytes of message number `seed`, and whether they are.
void fillPattern(uint8_t* to, size_t bytes, uint64_t seed);
bool hasPattern(const uint8_t* from, size_t bytes, uint64_t seed);

struct Message {
  size_t bytes = 0;
  size_t extraRoom = 0;  // the receive is larger by this
};

struct FlowPlan {
  std::vector<Message> messages;
  size_t window = 8;
  size_t offset = 0;        // of every buffer from its alignment
  uintptr_t stale = 0;      // stands in *request before each post
  bool checkStale = false;  // and must be gone after it
  uint64_t seed = 1;        // of the first message; the tag too
};

class Flow {
 public:
  static Result<Flow> create(Side& side, void* comm, bool sends, FlowPlan plan);

  // Posts what the window takes, tests the oldest.
  Result<Progress> step();
  // Only posts: kDone once all that the window takes are under way.
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

// Until all are finished; the time-out counts from the last message that was.
Status run(Side& side, std::span<Flow> flows);
// One flow with the side's end of a connection.
Status transfer(Side& side, void* comm, FlowPlan plan);

}  // namespace bps::check
