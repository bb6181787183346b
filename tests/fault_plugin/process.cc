#include "tests/fault_plugin/process.h"

#include <atomic>
#include <deque>

#include "src/base/format.h"

namespace bps::fault {
namespace {

std::atomic<abi::Logger> currentLogger{nullptr};

struct Process {
  Mutex mutex;
  std::deque<net::DeviceInfo> devices BPS_GUARDED_BY(mutex);  // callers keep pointers to the elements
  std::unique_ptr<Context> shared BPS_GUARDED_BY(mutex);
};

Process& process() {
  static Process& instance = *new Process;
  return instance;
}

}  // namespace

Result<std::unique_ptr<Context>> openContext(uint64_t commId, abi::Logger logger) {
  currentLogger = logger;
  std::unique_ptr<Context> context = BPS_TRY(Context::open(commId));
  Process& all = process();
  const MutexLock lock(all.mutex);
  while (all.devices.size() < static_cast<size_t>(context->adapter().deviceCount()))
    all.devices.push_back(BPS_TRY(context->adapter().device(static_cast<int>(all.devices.size()))));
  return context;
}

int deviceCount() {
  const MutexLock lock(process().mutex);
  return static_cast<int>(process().devices.size());
}

Result<const net::DeviceInfo*> deviceAt(int index) {
  const MutexLock lock(process().mutex);
  if (index < 0 || static_cast<size_t>(index) >= process().devices.size())
    return failure(Code::kInvalidArgument, "there is no device {}", index);
  return &process().devices[static_cast<size_t>(index)];
}

void setSharedContext(std::unique_ptr<Context> context) {
  const MutexLock lock(process().mutex);
  process().shared = std::move(context);
}

Context& sharedContext() {
  const MutexLock lock(process().mutex);
  return *process().shared;
}

int reported(const Status& outcome) {
  const abi::Logger log = currentLogger.load();
  if (!outcome.ok() && log != nullptr) log(abi::kLogWarn, abi::kLogNet, __FILE__, __LINE__, "%s", outcome.message());
  return static_cast<int>(outcome.code());
}

}  // namespace bps::fault
