// Comm: one end of an established one-way connection. Each transport derives a sending and a receiving end from it.
//
// post() posts a send on a sending end and a receive on a receiving end. A Comm and its requests are used by one thread
// at a time. The destructor closes the connection even if requests are in flight.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/status.h"

namespace bps::plugin {

inline constexpr size_t kMaxMessageBytes = (size_t{1} << 31) - 1;

class Comm;

// A range of memory to register with a network device.
struct MemoryRegion {
  void* data = nullptr;
  size_t bytes = 0;
  bool onGpu = false;   // GPU memory, which the CPU must not access
  int dmaBuf = -1;      // dma-buf descriptor of GPU memory, valid only during the registration; -1: none
  uint64_t offset = 0;  // offset of the data in the dma-buf
};

// One posted message. It is an element of its Comm's RequestRing. The caller gets a handle with a generation number, so
// that the use of a stale handle is detected.
struct alignas(64) Request {
  enum class State : uint8_t { kFree, kPosted, kDone };

  Comm* comm = nullptr;
  uint8_t* data = nullptr;
  void* memory = nullptr;  // the registration of the data; may be null
  size_t bytes = 0;        // size of the message; for a receive: of the buffer, until the header has arrived
  State state = State::kFree;
  uint8_t generation = 0;  // stored in the low bits of the handle, which are zero in the aligned address

  void* handle() { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(this) | generation); }
  // Returns null if the handle does not belong to a request that is in flight.
  static Request* fromHandle(void* handle);
};

// The requests of one Comm in the order of posting. Requests before active() are done; requests from active() to end()
// are in flight.
class RequestRing {
 public:
  static constexpr size_t kCapacity = 64;

  explicit RequestRing(Comm* comm);

  // Returns null if the ring is full.
  Request* post(void* data, size_t bytes, void* memory);
  uint64_t active() const { return active_; }
  uint64_t end() const { return end_; }
  bool idle() const { return active_ == end_; }
  bool hasDone() const { return done_ > 0; }
  Request& at(uint64_t index) { return requests_[index % kCapacity]; }
  Request& front() { return at(active_); }
  // Completes the front request with this message size.
  void finishFront(size_t bytes);
  // Frees a request that is done.
  void retire(Request& request);

 private:
  std::array<Request, kCapacity> requests_;
  uint64_t active_ = 0, end_ = 0;
  size_t done_ = 0;  // requests that are done and not retired
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

  // Registers memory with the device for post(). A null registration is valid. Any thread may call these two functions
  // at any time.
  virtual Result<void*> registerMemory(const MemoryRegion& memory);
  virtual void deregisterMemory(void*) {}
  // The kinds of memory that can be registered (NCCL's bits).
  virtual int ptrSupport() const;
  // Returns null if the ring is full; then call again later. Fails if the connection has failed.
  Result<Request*> post(void* data, size_t bytes, void* memory = nullptr);
  // Moves data without blocking. A message that was complete before a failure is reported as done.
  Result<Completion> test(Request& request);
  // Makes a received message in GPU memory visible to the GPU: it is visible once the request is done, or at once if
  // the request is null.
  virtual Result<Request*> flushMemory(void*, size_t, void*) { return nullptr; }

  // See bpsNetReverse_v1_t. Null: the connection has no reverse direction.
  virtual Result<std::unique_ptr<Comm>> reverse() { return std::unique_ptr<Comm>(); }
  // See bpsNetWait_v1_t.
  virtual Result<int> waitFd() = 0;
  virtual Result<bool> arm() = 0;

 protected:
  // Moves data of posted messages without blocking. A failure is final.
  virtual Status progress() = 0;
  // Stores a failure unless there is an earlier one.
  void keepFirstFailure(Status outcome);
  const Status& firstFailure() const { return failure_; }
  RequestRing& requests() { return requests_; }
  const RequestRing& requests() const { return requests_; }

 private:
  RequestRing requests_;
  Status failure_;
};

}  // namespace bps::plugin
