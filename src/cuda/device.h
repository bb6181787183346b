// Device: one CUDA device of this process, with its primary context, which bps keeps once it has used it (as the CUDA
// runtime does: what still waits in streams must stay valid). ScopedContext: a thread that calls the driver for bps.
//
// Threads: any.
#pragma once
#include <memory>
#include <string>

#include "src/base/mutex.h"
#include "src/cuda/driver.h"

namespace bps::cuda {

class Device {
 public:
  static Result<int> count(const Api& api);
  // The device of the calling thread's context; device 0, the runtime's default, where it has none.
  static Result<int> current(const Api& api);
  // Whether somebody in this process has memory or streams on it already: who only asks should not make a context,
  // which costs time and device memory.
  static bool hasActiveContext(const Api& api, int ordinal);

  // "0000:1a:00.0", as the kernel names it; empty if the driver does not say.
  static std::string busId(const Api& api, int ordinal);

  // Opened at most once per process and number.
  static Result<Device*> open(const Api& api, int ordinal);

  const Api& api() const { return api_; }
  int ordinal() const { return ordinal_; }
  Context context() const { return context_; }
  int numaNode() const { return numaNode_; }  // -1: not known
  // Streams can wait for a value in memory, without a host function.
  bool hasStreamMemOps() const { return hasStreamMemOps_; }

 private:
  Device(const Api& api, int ordinal, Context context) : api_(api), ordinal_(ordinal), context_(context) {}
  bool probeStreamMemOps();

  const Api& api_;
  int ordinal_;
  Context context_;
  int numaNode_ = -1;
  bool hasStreamMemOps_ = false;
};

// While it lives, the context is the calling thread's current one, and what the thread does disturbs no other thread's
// capture of a stream. What was before comes back.
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

// A stream of bps's own. One that copies waits for nothing but its own copies, and has the highest priority, so that it
// does not stand behind other streams' work in one of the device's queues. One that waits for others' work has the
// least, so that no copy stands behind it.
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

// A point in a stream, recorded again and again.
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
