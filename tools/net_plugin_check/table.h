// Table: a net plugin's function table, of any version of the interface in the form of the newest. The calls go through
// as they are, with whatever the caller's out-parameters hold, which src/net does not do: it protects its users from
// what is to be found out here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bps/net_plugin.h"
#include "net_plugin/abi.h"
#include "src/base/status.h"
#include "tools/net_plugin_check/monitor.h"

namespace bps::check {

struct DeviceProperties {
  std::string name, pciPath;
  int ptrSupport = 0, speedMbps = 0, port = 0, maxComms = 0, maxRecvs = 0, deviceType = 0;
  int virtualDevices = 1;  // before version 9: there are none
  size_t maxBytes = size_t{1} << 30, maxCollBytes = size_t{1} << 30;

  // The first field in which they differ, or null.
  const char* difference(const DeviceProperties& other) const;
};

// One buffer of a send or a receive.
struct MessageBuffer {
  void* data = nullptr;
  size_t bytes = 0;
  int tag = 0;
  void* memory = nullptr;  // its registration
};
inline constexpr size_t kMaxGroupedReceives = 8;
inline constexpr int kOldestAbi = 8, kNewestAbi = 12;

class Table {
 public:
  virtual ~Table() = default;

  virtual int version() const = 0;
  virtual std::string name() const = 0;
  // The first member that NCCL calls without looking and that is null, or null itself. Before init: `name` and `init`.
  virtual const char* missing(bool initialised) const = 0;
  virtual bool canFlush() const = 0;
  virtual bool canRegisterDmaBuf() const = 0;
  // How to sleep on its connections; null: it does not say.
  virtual const bpsNetWait_v1_t* wait() const = 0;
  bool hasContexts() const { return version() >= 11; }

  // One thread at a time in init and finalize, as NCCL has it; before version 11 once per process.
  virtual int init(void** context) = 0;
  virtual int finalize(void* context) = 0;
  virtual int devices(int* count) = 0;
  // `fill` is in every byte before the call: what the plugin leaves alone shows.
  virtual int getProperties(int device, int fill, DeviceProperties& out) = 0;
  virtual int listen(void* context, int device, void* handle, void** comm) = 0;
  virtual int connect(void* context, int device, void* handle, void** comm) = 0;
  virtual int accept(void* listener, void** comm) = 0;
  virtual int regMr(void* comm, void* data, size_t bytes, void** memory) = 0;
  // GPU memory: as a dma-buf, or by its address where that is -1.
  virtual int regGpuMr(void* comm, const MessageBuffer& region, int dmaBuf, void** memory) = 0;
  virtual int deregMr(void* comm, void* memory) = 0;
  virtual int isend(void* comm, const MessageBuffer& piece, void** request) = 0;
  virtual int irecv(void* comm, std::span<const MessageBuffer> pieces, void** request) = 0;
  virtual int iflush(void* comm, const MessageBuffer& piece, void** request) = 0;
  virtual int test(void* request, int* done, int* sizes) = 0;
  virtual int closeSend(void* comm) = 0;
  virtual int closeRecv(void* comm) = 0;
  virtual int closeListen(void* listener) = 0;
};

// NCCL's search: the name as it is, then libnccl-net-NAME.so; of the versions up to `newest` the highest.
Result<std::unique_ptr<Table>> loadTable(const std::string& name, int newest, std::string& path);

// What the plugin warned of last on this thread, taken; empty: nothing. `verbose`: its whole log goes to stderr.
std::string takeWarning();
void setVerbose(bool verbose);

}  // namespace bps::check
