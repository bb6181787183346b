// PluginAdapter: a uniform interface to a net plugin's function table and context, independent of the table's version.
//
// Most functions make one call into the plugin. Void pointers point to objects of the plugin. The PluginAdapter sets
// output parameters to null or zero before it calls the plugin, because a plugin may leave them unset.
#pragma once
#include <memory>
#include <string>

#include "bps/net_plugin.h"
#include "src/net/net.h"
#include "src/net/net_counters.h"

namespace bps::net {

enum class RawKind { kSend, kReceive, kListener };

class PluginAdapter {
 public:
  virtual ~PluginAdapter() = default;

  virtual Status init(uint64_t commId) = 0;
  virtual Result<DeviceInfo> device(int index) = 0;
  virtual Result<void*> listen(int device, Handle& handle) = 0;
  virtual Result<void*> connect(int device, Handle& handle) = 0;  // null: not yet
  virtual Result<void*> accept(void* listener) = 0;               // null: not yet
  virtual Result<void*> registerMemory(void* comm, void* data, size_t bytes) = 0;
  virtual Result<void*> registerGpu(void* comm, const GpuRegion& region, bool asDmaBuf) = 0;
  virtual void deregister(void* comm, void* memory) = 0;
  virtual Result<void*> isend(void* comm, void* data, size_t bytes, void* memory) = 0;  // null: not now
  virtual Result<void*> irecv(void* comm, void* data, size_t bytes, void* memory) = 0;  // null: not now
  virtual Result<void*> flush(void* comm, void* data, size_t bytes, void* memory) = 0;  // null: nothing to await
  virtual Result<Completion> test(void* request) = 0;
  virtual void close(void* raw, RawKind kind) = 0;

  // See Comm::gpuRegistrationModes().
  GpuRegistrationModes gpuRegistrationModes(void* comm, const GpuRegistrationModes& deviceModes) const;
  // Returns -1 if the plugin cannot wake a sleeping thread.
  int waitFd(void* comm) const;
  Result<bool> arm(void* comm) const;
  bool canReverse() const { return reverse_ != nullptr; }
  // Returns null if the connection has no reverse direction.
  Result<void*> reverse(void* comm) const;

  const std::string& description() const { return description_; }
  int deviceCount() const { return deviceCount_; }
  int maxRequests() const { return maxRequests_; }
  // Null if nothing counts.
  NetCounters* counters() const { return counters_.get(); }
  void countInto(std::shared_ptr<NetCounters> counters) { counters_ = std::move(counters); }

 protected:
  std::string name_, description_;
  int deviceCount_ = 0;
  int maxRequests_ = 0;
  const bpsNetWait_v1_t* wait_ = nullptr;
  const bpsNetMemory_v1_t* memory_ = nullptr;
  const bpsNetReverse_v1_t* reverse_ = nullptr;
  std::shared_ptr<NetCounters> counters_;
};

inline constexpr int kNewestVersion = 12, kOldestVersion = 8;

// Creates an adapter for the newest table in the library whose version is supported and not newer than `newest`. Fails
// if the library has no such table. createPluginAdapter() does not call init. `library` comes from dlopen. `library` is
// never closed, because plugins may leave threads and exit handlers behind.
Result<std::shared_ptr<PluginAdapter>> createPluginAdapter(void* library, const std::string& path,
                                                           int newest = kNewestVersion);

// Searches for a plugin, then loads and initialises it. See Plugin::load().
Result<std::shared_ptr<PluginAdapter>> loadPluginAdapter(const std::string& name, uint64_t commId);

}  // namespace bps::net
