// Comm: one end of an established one-way connection, as the adapters to NCCL's interface see it. A transport derives
// its sending and its receiving end from it; posting means sending on the one and receiving on the other.
//
// A Comm and its requests belong to one thread at a time. Destroying it closes the connection, whatever is in flight.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/status.h"

namespace bps::plugin {

inline constexpr size_t kMaxMessageBytes = (size_t{1} << 31) - 1;

class Comm;

// Memory that is to be known to a device of the network.
struct MemoryRegion {
  void* data = nullptr;
  size_t bytes = 0;
  bool onGpu = false;   // the CPU cannot reach it
  int dmaBuf = -1;      // the kernel's name for GPU memory, only good until the registration stands; -1: there is none
  uint64_t offset = 0;  // of the data in it
};

// One posted message. Lives in its Comm's ring; the caller holds a handle, checked against stale use.
struct alignas(64) Request {
  enum class State : uint8_t { kFree, kPosted, kDone };

  Comm* comm = nullptr;
  uint8_t* data = nullptr;
  void* memory = nullptr;  // what registerMemory() gave for the data; null: nothing is known of it
  size_t bytes = 0;        // of the message; of a receive before its header came: the room
  State state = State::kFree;
  uint8_t generation = 0;  // the low bits of the handle, which the alignment leaves free

  void* handle() { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(this) | generation); }
  // Null when the handle is not of a request that is under way.
  static Request* fromHandle(void* handle);
};

// The requests of one Comm, in posting order: those before active() are done, those from active() to end() under way.
class RequestRing {
 public:
  static constexpr size_t kCapacity = 64;

  explicit RequestRing(Comm* comm);

  // Null when the ring is full.
  Request* post(void* data, size_t bytes, void* memory);
  uint64_t active() const { return active_; }
  uint64_t end() const { return end_; }
  bool idle() const { return active_ == end_; }
  bool hasDone() const { return done_ > 0; }
  Request& at(uint64_t index) { return requests_[index % kCapacity]; }
  Request& front() { return at(active_); }
  // The front one is complete with this many bytes.
  void finishFront(size_t bytes);
  // Frees a done request.
  void retire(Request& request);

 private:
  std::array<Request, kCapacity> requests_;
  uint64_t active_ = 0, end_ = 0;
  size_t done_ = 0;  // finished and not yet retired
};

struct Completion {
  bool done = false;
  size_t bytes = 0;
};

class Comm {
 public:
  Comm() : requests_(this) {}
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  virtual ~Comm() = default;

  // Makes memory known to the device, for post(); null is a valid answer. Another thread may call these two, at any
  // time.
  virtual Result<void*> registerMemory(const MemoryRegion& memory);
  virtual void deregisterMemory(void*) {}
  // NCCL's bits for the kinds of memory that may be registered.
  virtual int ptrSupport() const;
  // A null request: no room now, call again. Fails when the connection has.
  Result<Request*> post(void* data, size_t bytes, void* memory = nullptr);
  // Moves what can be moved without blocking. Messages that were complete before a failure are reported as done.
  Result<Completion> test(Request& request);
  // Of memory on a GPU where a message has arrived: done when everybody sees it there. A null request: it is done.
  virtual Result<Request*> flushMemory(void*, size_t, void*) { return nullptr; }

  // See bpsNetReverse_v1_t. Null: there is none.
  virtual Result<std::unique_ptr<Comm>> reverse() { return std::unique_ptr<Comm>(); }
  // See bpsNetWait_v1_t.
  virtual Result<int> waitFd() = 0;
  virtual Result<bool> arm() = 0;

 protected:
  // One non-blocking attempt to move posted messages; a failure is final.
  virtual Status progress() = 0;
  // Keeps the first failure; success changes nothing.
  void keepFirstFailure(Status outcome);
  const Status& firstFailure() const { return failure_; }
  RequestRing& requests() { return requests_; }
  const RequestRing& requests() const { return requests_; }

 private:
  RequestRing requests_;
  Status failure_;
};

}  // namespace bps::plugin
