// The data plane's access to the network: RAII types around an NCCL net plugin. bps sends data only through them.
//
// A Plugin is one loaded library with one context. A connection is one-way, as in NCCL: the receiving side listens and
// gets a Handle, which the control plane carries to the sending side; the sending side connects to it. No function
// blocks.
//
// Threads: any thread may use Plugin. A Listener, Connector or Comm, with its requests and registrations, is used by
// one thread at a time. Each keeps the plugin's context alive.
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

// A range of GPU memory. The CPU must not access it.
struct GpuRegion {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  int dmaBuf = -1;  // dma-buf descriptor of the whole range; -1: none
};

struct DeviceInfo {
  std::string name;
  std::string pciPath;  // empty: not a PCI device
  int speedMbps = 0;
  size_t maxBytes = 0;  // size of the largest message
  GpuRegistrationModes gpu;
};

// A posted isend, irecv or flush. Null: the plugin cannot post it now, call again later.
struct Request {
  void* raw = nullptr;
  explicit operator bool() const { return raw != nullptr; }
};

struct Completion {
  bool done = false;
  size_t bytes = 0;  // for a receive: the size of the received message
};

class PluginAdapter;  // see plugin_adapter.h

// One established one-way connection. The destructor deregisters the remaining registrations and closes the connection
// even if requests are in flight. Until then the plugin may access the buffers of these requests.
class Comm {
 public:
  Comm(std::shared_ptr<PluginAdapter> adapter, void* raw, bool sends);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  // Registers host memory with the device until deregister() or the destructor. A null handle is valid and need not be
  // deregistered.
  Result<void*> registerMemory(void* data, size_t bytes);
  void deregister(void* memory);

  // The registration modes that this connection supports. They are a subset of those of its device.
  GpuRegistrationModes gpuRegistrationModes(const GpuRegistrationModes& deviceModes) const;
  // Registers GPU memory; messages may then lie in any part of it.
  Result<void*> registerGpu(const GpuRegion& region, const GpuRegistrationModes& modes);
  // Makes received data visible to the GPU: it is visible once the request is done, or at once if the request is null.
  Result<Request> flush(void* data, size_t bytes, void* memory);

  // Requests complete in the order of posting, so test the oldest first. At most maxRequests() can be in flight.
  Result<Request> isend(const void* data, size_t bytes, void* memory);
  Result<Request> irecv(void* data, size_t bytes, void* memory);
  Result<Completion> test(Request request);
  int maxRequests() const;

  // Returns the reverse direction of this connection, or null if it has none. See bpsNetReverse_v1_t.
  Result<std::unique_ptr<Comm>> reverse();

  // For sleeping, see bpsNetWait_v1_t in bps/net_plugin.h. waitFd() is a descriptor to poll for reading, or -1 if the
  // plugin has none. Call arm() right before the sleep; if it returns true, do not sleep, because progress is possible.
  int waitFd() const { return waitFd_; }
  Result<bool> arm();
  // False: test() cannot find anything new (see Waiter).
  bool awake() const { return awake_; }
  void setAwake(bool awake) { awake_ = awake; }
  // Whether a call needs this connection's data now. A polling thread does not test the other connections.
  bool needed() const { return needed_; }
  void setNeeded(bool needed) { needed_ = needed; }
  // Called after an error: the connection is not used any more and must not wake a thread.
  void markFailed() { failed_ = true; }
  bool hasFailed() const { return failed_; }

 private:
  std::shared_ptr<PluginAdapter> adapter_;
  void* raw_;
  bool sends_;
  bool awake_ = true, needed_ = true, failed_ = false;
  int waitFd_ = -1;
  std::vector<void*> registered_;  // in the order of registration; may contain a handle twice
};

class Listener {
 public:
  Listener(std::shared_ptr<PluginAdapter> adapter, void* raw, const Handle& handle);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  const Handle& handle() const { return handle_; }
  // Returns the receiving end. Null: the peer has not connected yet, call again.
  Result<std::unique_ptr<Comm>> accept();

 private:
  std::shared_ptr<PluginAdapter> adapter_;
  void* raw_;
  Handle handle_;
};

class Connector {
 public:
  Connector(std::shared_ptr<PluginAdapter> adapter, int device, const Handle& handle);
  // Returns the sending end. Null: not connected yet, call again.
  Result<std::unique_ptr<Comm>> connect();

 private:
  std::shared_ptr<PluginAdapter> adapter_;
  int device_;
  alignas(16) Handle handle_;  // plugins keep the state of the connect in it
};

class Plugin {
 public:
  // `name` is a value of BPS_NET_PLUGIN: a path, or NAME as in libnccl-net-NAME.so. If it is empty, loads the plugin of
  // bps from the directory of this library. `commId` is not 0 and is equal on all peers. A failure names every file
  // that was tried, with the reason.
  static Result<std::shared_ptr<Plugin>> load(const std::string& name, uint64_t commId);
  explicit Plugin(std::shared_ptr<PluginAdapter> adapter);

  const std::string& description() const;  // "bps v12 (path)"
  bool canReverse() const;                 // Comm::reverse() may return a connection
  int deviceCount() const;
  Result<DeviceInfo> device(int index) const;
  // Returns the index of the device with this name or PCI bus id ("0000:3b:00.0"; empty: unknown), or nullopt.
  Result<std::optional<int>> find(const std::string& name, const std::string& busId) const;

  Result<std::unique_ptr<Listener>> listen(int device);
  std::unique_ptr<Connector> connect(int device, const Handle& handle);

 private:
  std::shared_ptr<PluginAdapter> adapter_;
};

}  // namespace bps::net
