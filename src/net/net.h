// The only door between bps and the network: any NCCL net plugin, wrapped in types that own what they hold.
//
// A Plugin is one loaded library with one context. A connection is one-way, as in NCCL: the receiving side listens and
// gets a Handle, which travels by the control plane; the sending side connects to it. Everything is non-blocking.
//
// Threads: a Listener, Connector, SendComm or RecvComm, with its Requests and Registrations, belongs to one thread at a
// time. Plugin may be used from any thread. Objects keep their Plugin alive.
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

// How memory on a GPU may be registered.
struct GpuRegistrationModes {
  bool byAddress = false, asDmaBuf = false;
  explicit operator bool() const { return byAddress || asDmaBuf; }
};

// Memory on a GPU, which the CPU may not touch.
struct GpuRegion {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  int dmaBuf = -1;  // the kernel's name for all of it; -1: it has none
};

struct DeviceInfo {
  std::string name;
  std::string pciPath;  // empty: not a PCI device
  int speedMbps = 0;
  size_t maxBytes = 0;  // largest single message
  GpuRegistrationModes gpu;
};

// One isend or irecv under way; null means "cannot now, call again".
struct Request {
  void* raw = nullptr;
  explicit operator bool() const { return raw != nullptr; }
};

struct Completion {
  bool done = false;
  size_t bytes = 0;  // of a receive: what really came
};

class PluginAdapter;  // a plugin's function table, adapted to one form whatever its version; see driver.h

// One established one-way connection. Destroying it takes back what is still registered and closes it, whatever is in
// flight: until then the plugin may touch the buffers, and keeps the pages of what is registered.
class Comm {
 public:
  Comm(std::shared_ptr<PluginAdapter> adapter, void* raw, bool sends);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  // Makes host memory known to the device; null handles are valid handles, and nothing to take back. Kept until
  // deregister or close.
  Result<void*> registerMemory(void* data, size_t bytes);
  void deregister(void* memory);

  // What this connection takes, where it is of a device that takes so much: not all of a device need take as much.
  GpuRegistrationModes gpuRegistrationModes(const GpuRegistrationModes& deviceModes) const;
  // The same for memory on a GPU, of which messages may then be a part. What has arrived there is seen on the GPU when
  // its flush is done; a null request: it is.
  Result<void*> registerGpu(const GpuRegion& region, const GpuRegistrationModes& modes);
  Result<Request> flush(void* data, size_t bytes, void* memory);

  // Requests complete in the order in which they were posted; test the oldest first. At most maxRequests() at once.
  Result<Request> isend(const void* data, size_t bytes, void* memory);
  Result<Request> irecv(void* data, size_t bytes, void* memory);
  Result<Completion> test(Request request);
  int maxRequests() const;

  // The other direction of this connection, where the plugin offers it; see bpsNetReverse_v1_t. Null: there is none.
  Result<std::unique_ptr<Comm>> reverse();

  // Sleeping (see bpsNetWait_v1_t in bps/net_plugin.h): a descriptor to poll for reading, or -1 when the plugin has
  // none; arm() right before sleeping, true: do not sleep, there is something to do.
  int waitFd() const { return waitFd_; }
  Result<bool> arm();
  // Whether test() may find anything new (see Waiter).
  bool awake() const { return awake_; }
  void setAwake(bool awake) { awake_ = awake; }
  // Whether somebody can go on with what it brings now. What is not wanted is not asked for while its thread polls.
  bool needed() const { return needed_; }
  void setNeeded(bool needed) { needed_ = needed; }
  // Its user has met an error and will ask it no more: it has nothing to wake anybody for.
  void markFailed() { failed_ = true; }
  bool hasFailed() const { return failed_; }

 private:
  std::shared_ptr<PluginAdapter> adapter_;
  void* raw_;
  bool sends_;
  bool awake_ = true, needed_ = true, failed_ = false;
  int waitFd_ = -1;
  std::vector<void*> registered_;  // in the order of registration; a handle may stand here twice
};

class Listener {
 public:
  Listener(std::shared_ptr<PluginAdapter> adapter, void* raw, const Handle& handle);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  const Handle& handle() const { return handle_; }
  // The receiving end once the peer has connected; null: not yet, call again.
  Result<std::unique_ptr<Comm>> accept();

 private:
  std::shared_ptr<PluginAdapter> adapter_;
  void* raw_;
  Handle handle_;
};

class Connector {
 public:
  Connector(std::shared_ptr<PluginAdapter> adapter, int device, const Handle& handle);
  // The sending end once connected; null: not yet, call again.
  Result<std::unique_ptr<Comm>> connect();

 private:
  std::shared_ptr<PluginAdapter> adapter_;
  int device_;
  alignas(16) Handle handle_;  // plugins keep their connect state in it
};

class Plugin {
 public:
  // `name` as BPS_NET_PLUGIN: a path, a suffix (libnccl-net-NAME.so), or empty for ours, found beside this library.
  // `commId` is non-zero and equal on all peers. Fails naming each file tried and why.
  static Result<std::shared_ptr<Plugin>> load(const std::string& name, uint64_t commId);
  explicit Plugin(std::shared_ptr<PluginAdapter> adapter);

  const std::string& description() const;  // "bps v12 (path)"
  bool canReverse() const;                 // Comm::reverse() may give something
  int deviceCount() const;
  Result<DeviceInfo> device(int index) const;
  // The device with this name, or at this place on the bus ("0000:3b:00.0"; empty: unknown); nothing: there is none.
  Result<std::optional<int>> find(const std::string& name, const std::string& busId) const;

  Result<std::unique_ptr<Listener>> listen(int device);
  std::unique_ptr<Connector> connect(int device, const Handle& handle);

 private:
  std::shared_ptr<PluginAdapter> adapter_;
};

}  // namespace bps::net
