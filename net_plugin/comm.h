// Comm: one end of an established one-way connection. Each transport derives a class for the
// sending end and a class for the receiving end.
//
// post() posts a send on a sending end and a receive on a receiving end. A Comm and its requests
// are used by one thread at a time. The destructor closes the connection even if requests are in
// flight.
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
  int dmaBuf = -1;      // dma-buf descriptor of GPU memory, or -1; valid only during registration
  uint64_t offset = 0;  // offset of the data in the dma-buf
};

// A posted send or receive, which is an element of its Comm's RequestRing. The caller gets a handle
// with a generation number. This number reveals the use of a stale handle.
struct alignas(64) Request {
  enum class State : uint8_t { kFree, kPosted, kDone };

  Comm* comm = nullptr;
  uint8_t* data = nullptr;
  void* memory = nullptr;  // the registration of the data; may be null
  size_t bytes = 0;        // size of the message; for a receive that is not done, size of the buffer
  State state = State::kFree;
  uint8_t generation = 0;  // stored in the low bits of the handle, which are zero in an aligned address

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
  // Marks the front request as done and stores the size of its message.
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

  // Registers memory with the device for use in post(). The result may be null, which is a valid
  // registration. Any thread may call registerMemory() and deregisterMemory() at any time.
  virtual Result<void*> registerMemory(const MemoryRegion& memory);
  virtual void deregisterMemory(void*) {}
  // Returns the kinds of memory that can be registered, as a set of the kPtr bits of abi.h.
  virtual int ptrSupport() const;
  // Posts a message. Returns null if the ring of requests is full; the caller must then try again
  // later. Fails if the connection has failed.
  Result<Request*> post(void* data, size_t bytes, void* memory = nullptr);
  // Moves data without blocking and returns whether the request is done. A message that was
  // complete before the connection failed is reported as done.
  Result<Completion> test(Request& request);
  // Makes a received message in GPU memory visible to the GPU. The message is visible as soon as
  // the returned request is done. If the result is null, the message is visible already.
  virtual Result<Request*> flushMemory(void*, size_t, void*) { return nullptr; }

  // Returns the Comm for the reverse direction (see bpsNetReverse_v1_t). Returns null if the
  // connection has no reverse direction.
  virtual Result<std::unique_ptr<Comm>> reverse() { return std::unique_ptr<Comm>(); }
  // See bpsNetWait_v1_t.
  virtual Result<int> waitFd() = 0;
  virtual Result<bool> arm() = 0;

 protected:
  // Moves data of posted messages without blocking. A failure of progress() is final.
  virtual Status progress() = 0;
  // Stores `outcome` if it is the first failure of the connection.
  void keepFirstFailure(Status outcome);
  const Status& firstFailure() const { return failure_; }
  RequestRing& requests() { return requests_; }
  const RequestRing& requests() const { return requests_; }

 private:
  RequestRing requests_;
  Status failure_;
};

}  // namespace bps::plugin
