// Device: one CUDA device of this process, with its primary context. OwnedStream and OwnedEvent: a
// CUDA stream and a CUDA event, which their destructors free.
//
// A Device and its context exist until the process ends, as in the CUDA runtime, because work in
// streams must stay valid. Any thread may call these functions.
#pragma once
#include <memory>
#include <string>

#include "src/base/mutex.h"
#include "src/cuda/driver.h"

namespace bps::cuda {

class Device {
 public:
  static Result<int> count(const Api& api);
  // Returns the device of the calling thread's context. If the thread has no context, returns
  // device 0, the default of the CUDA runtime.
  static Result<int> current(const Api& api);
  // True if this process already has a context on the device. The query creates no context, because
  // a context costs time and memory.
  static bool hasActiveContext(const Api& api, int ordinal);

  // Returns the kernel's name of the device, such as "0000:1a:00.0". Returns empty text if the
  // driver does not know the device.
  static std::string busId(const Api& api, int ordinal);

  // Opens the device; later calls return the same object.
  static Result<Device*> open(const Api& api, int ordinal);

  const Api& api() const { return api_; }
  int ordinal() const { return ordinal_; }
  Context context() const { return context_; }
  int numaNode() const { return numaNode_; }  // -1: unknown
  // True if streams can wait for a value in memory and write one, which all calls on CUDA streams need.
  bool hasStreamMemOps() const { return hasStreamMemOps_; }
  // Fails with the reason why calls cannot use the device, if it has no stream memory operations.
  Status checkStreamMemOps() const;

 private:
  Device(const Api& api, int ordinal, Context context) : api_(api), ordinal_(ordinal), context_(context) {}
  bool probeStreamMemOps();

  const Api& api_;
  int ordinal_;
  Context context_;
  int numaNode_ = -1;
  bool hasStreamMemOps_ = false;
};

// Makes the context current in the calling thread. Until the destructor, CUDA calls of this thread
// do not invalidate stream captures of other threads. The destructor restores the previous state.
class ScopedContext {
 public:
  explicit ScopedContext(const Device& device) : ScopedContext(device.api(), device.context()) {}
  ScopedContext(const Api& api, Context context);
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
  ~ScopedContext();

 private:
  const Api& api_;
  bool pushed_;
  int captureMode_ = kRelaxed;
};

// A stream that bps creates. Streams with the same priority may share a queue of the device.
// Streams for copies have the highest priority, so work in other streams does not delay them.
// Streams for waits have the lowest priority, so they delay no copy.
class OwnedStream {
 public:
  enum class Use { kCopies, kWaits };
  static Result<std::unique_ptr<OwnedStream>> create(const Device& device, Use use = Use::kCopies);
  ~OwnedStream();
  Stream get() const { return stream_; }
  Result<bool> idle() const;

 private:
  OwnedStream(const Device& device, Stream stream) : device_(device), stream_(stream) {}
  const Device& device_;
  Stream stream_;
};

// A CUDA event, which marks a point in a stream. An OwnedEvent may be recorded repeatedly.
class OwnedEvent {
 public:
  static Result<OwnedEvent> create(const Device& device);
  OwnedEvent(OwnedEvent&& other) noexcept : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}
  ~OwnedEvent();
  Status record(const OwnedStream& stream);
  Result<bool> passed() const;
  Event get() const { return event_; }

 private:
  OwnedEvent(const Device& device, Event event) : device_(&device), event_(event) {}
  const Device* device_;
  Event event_;
};

}  // namespace bps::cuda
