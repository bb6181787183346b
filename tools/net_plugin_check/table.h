// Table: a uniform interface to the function table of a net plugin, independent of the version of
// the table. Every call is recorded (monitor.h).
//
// In contrast to src/net, a Table does not change output parameters. The rules can therefore check
// what a plugin does with the initial values of output parameters.
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
  int virtualDevices = 1;  // 1 before version 9
  size_t maxBytes = size_t{1} << 30, maxCollBytes = size_t{1} << 30;

  // Returns the name of the first field that differs, or null if no field differs.
  const char* difference(const DeviceProperties& other) const;
};

// One buffer of a send or a receive.
struct MessageBuffer {
  void* data = nullptr;
  size_t bytes = 0;
  int tag = 0;
  void* memory = nullptr;  // the handle of the registration
};
inline constexpr size_t kMaxGroupedReceives = 8;
inline constexpr int kOldestAbi = 8, kNewestAbi = 12;

class Table {
 public:
  virtual ~Table() = default;

  virtual int version() const = 0;
  virtual std::string name() const = 0;
  // Returns the name of the first missing member; abi::missingMember() gives the details.
  virtual const char* missing(bool initialised) const = 0;
  virtual bool canFlush() const = 0;
  virtual bool canRegisterDmaBuf() const = 0;
  // Returns the plugin's bpsNetWait_v1, with which a thread can sleep, or null.
  virtual const bpsNetWait_v1_t* wait() const = 0;
  bool hasContexts() const { return version() >= 11; }

  // As in NCCL, only one thread at a time is in init or finalize. Before version 11, init runs one
  // time in a process.
  virtual int init(void** context) = 0;
  virtual int finalize(void* context) = 0;
  virtual int devices(int* count) = 0;
  // Sets every byte of the properties to `fill` before the call, so that the caller can recognise
  // fields that the plugin did not write.
  virtual int getProperties(int device, int fill, DeviceProperties& out) = 0;
  virtual int listen(void* context, int device, void* handle, void** comm) = 0;
  virtual int connect(void* context, int device, void* handle, void** comm) = 0;
  virtual int accept(void* listener, void** comm) = 0;
  virtual int regMr(void* comm, void* data, size_t bytes, void** memory) = 0;
  // Registers GPU memory as a dma-buf, or by its address if `dmaBuf` is -1.
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

// Loads a plugin as NCCL does: tries `name` itself, and then libnccl-net-NAME.so. Uses the newest
// table whose version is at most `newest`. Sets `path` to the path of the file.
Result<std::unique_ptr<Table>> loadTable(const std::string& name, int newest, std::string& path);

// Returns the plugin's last warning on this thread, and clears the warning.
std::string takeWarning();
// If `verbose` is true, the log of the plugin goes to standard error.
void setVerbose(bool verbose);

}  // namespace bps::check
