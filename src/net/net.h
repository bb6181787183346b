// The RAII types in this file give the data plane access to the network through an NCCL net plugin. bps sends data only
// through these types.
//
// A Plugin is one loaded plugin library with one context. As in NCCL, a connection is one-way. The receiving side
// listens and gets a Handle, which the control plane carries to the sending side. The sending side connects to this
// Handle. No function in this file blocks.
//
// Any thread may use a Plugin. A Listener, Connector or Comm is used by only one thread at a time, together with its
// requests and registrations. Each Listener, Connector and Comm keeps the plugin's context alive.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace bps::net {

inline constexpr size_t kHandleBytes = 128;
using Handle = std::array<uint8_t, kHandleBytes>;

// The ways in which GPU memory can be registered.
struct GpuRegistrationModes {
  bool byAddress = false, asDmaBuf = false;
  explicit operator bool() const { return byAddress || asDmaBuf; }
};

// A range of GPU memory. The CPU must not access GPU memory.
struct GpuRegion {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  int dmaBuf = -1;  // dma-buf descriptor of the whole range, or -1 if there is no dma-buf
};

struct DeviceInfo {
  std::string name;
  std::string pciPath;  // empty if the device is not a PCI device
  int speedMbps = 0;
  size_t maxBytes = 0;  // size of the largest message
  GpuRegistrationModes gpu;
};

// A posted isend, irecv or flush. If the Request is null, the plugin cannot post the operation now and the caller must
// try again later.
struct Request {
  void* raw = nullptr;
  explicit operator bool() const { return raw != nullptr; }
};

struct Completion {
  bool done = false;
  size_t bytes = 0;  // for a receive, the size of the received message
};

class PluginAdapter;  // see plugin_adapter.h
struct NetCounters;

// One established one-way connection. The destructor removes the remaining registrations and closes the connection,
// even if requests are posted. Until the connection is closed, the plugin may access the buffers of posted requests.
class Comm {
 public:
  Comm(std::shared_ptr<PluginAdapter> adapter, void* raw, bool sends);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  // Registers host memory with the device until deregister() or the destructor. A null registration is valid and need
  // not be deregistered.
  Result<void*> registerMemory(void* data, size_t bytes);
  void deregister(void* memory);

  // The registration modes that this connection supports. A connection supports a subset of the modes of its device.
  GpuRegistrationModes gpuRegistrationModes(const GpuRegistrationModes& deviceModes) const;
  // Registers GPU memory. A message may then use any part of this memory.
  Result<void*> registerGpu(const GpuRegion& region, const GpuRegistrationModes& modes);
  // Makes received data visible to the GPU. The data is visible when the returned request is done, or immediately if
  // the request is null.
  Result<Request> flush(void* data, size_t bytes, void* memory);

  // Requests complete in the order in which they were posted, so test the oldest request first. At most maxRequests()
  // requests can be posted at a time.
  Result<Request> isend(const void* data, size_t bytes, void* memory);
  Result<Request> irecv(void* data, size_t bytes, void* memory);
  Result<Completion> test(Request request);
  int maxRequests() const;
  uint64_t messagesSent() const { return messagesSent_; }
  // Counts a received message in the counters of the Plugin.
  void noteReceived(size_t bytes) const;

  // Returns a Comm for the reverse direction of this connection, or null if there is no reverse direction. See
  // bpsNetReverse_v1_t in bps/net_plugin.h.
  Result<std::unique_ptr<Comm>> reverse();

  // waitFd() and arm() let a thread sleep (see bpsNetWait_v1_t in bps/net_plugin.h). waitFd() is a descriptor to poll
  // for reading, or -1 if the plugin has no such descriptor. Call arm() directly before the sleep. If arm() returns
  // true, do not sleep, because progress is possible.
  int waitFd() const { return waitFd_; }
  Result<bool> arm();
  // If awake() is false, test() cannot find anything new (see Waiter).
  bool awake() const { return awake_; }
  void setAwake(bool awake) { awake_ = awake; }
  // True if arm() has prepared a sleep and nothing has happened since then, so that arm() need not be called again.
  bool armed() const { return armed_; }
  void disarm() { armed_ = false; }
  // True if a call needs this connection's data now. A connection that is not needed is tested only after an event.
  bool needed() const { return needed_; }
  void setNeeded(bool needed);
  // Call markFailed() after an error. The connection is then not used any more and must not wake a thread.
  void markFailed() { failed_ = true; }
  bool hasFailed() const { return failed_; }

 private:
  Request noted(void* raw);

  std::shared_ptr<PluginAdapter> adapter_;
  void* raw_;
  bool sends_;
  bool awake_ = true, armed_ = false, needed_ = true, failed_ = false;
  int waitFd_ = -1;
  uint64_t messagesSent_ = 0;
  std::vector<void*> registered_;  // in the order of registration; may contain a registration twice
};

class Listener {
 public:
  Listener(std::shared_ptr<PluginAdapter> adapter, void* raw, const Handle& handle);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  const Handle& handle() const { return handle_; }
  // Returns the receiving side of the connection. If the result is null, the peer has not connected yet; call accept()
  // again.
  Result<std::unique_ptr<Comm>> accept();

 private:
  std::shared_ptr<PluginAdapter> adapter_;
  void* raw_;
  Handle handle_;
};

class Connector {
 public:
  Connector(std::shared_ptr<PluginAdapter> adapter, int device, const Handle& handle);
  // Returns the sending side of the connection. If the result is null, the connection is not established yet; call
  // connect() again.
  Result<std::unique_ptr<Comm>> connect();

 private:
  std::shared_ptr<PluginAdapter> adapter_;
  int device_;
  alignas(16) Handle handle_;  // plugins keep the state of a pending connect() in the handle
};

class Plugin {
 public:
  // `name` is a value of BPS_NET_PLUGIN, either a path or the NAME in libnccl-net-NAME.so. If `name` is empty, load()
  // loads the plugin of bps from the directory of libbps.so. `commId` must not be 0 and must be equal on all peers. A
  // failure names every file that was tried, and the reason why this file could not be used.
  static Result<std::shared_ptr<Plugin>> load(const std::string& name, uint64_t commId);
  explicit Plugin(std::shared_ptr<PluginAdapter> adapter);

  const std::string& description() const;  // "bps v12 (path)"
  bool canReverse() const;                 // true if Comm::reverse() may return a connection
  int deviceCount() const;
  Result<DeviceInfo> device(int index) const;
  // Returns the index of the device with this name or PCI bus id (such as "0000:3b:00.0"), or nullopt if there is none.
  // An empty name or bus id matches no device.
  Result<std::optional<int>> find(const std::string& name, const std::string& busId) const;

  // From now on, the connections count what they send and receive. Call countInto() before the first connection exists.
  void countInto(std::shared_ptr<NetCounters> counters);
  Result<std::unique_ptr<Listener>> listen(int device);
  std::unique_ptr<Connector> connect(int device, const Handle& handle);

 private:
  std::shared_ptr<PluginAdapter> adapter_;
};

}  // namespace bps::net
