#include "net_plugin/log.h"

#include <atomic>

#include "src/base/env.h"
#include "src/base/log.h"

namespace bps::plugin {
namespace {

// Relaxed memory ordering is sufficient, because the pointer refers to code and publishes no other
// data.
std::atomic<abi::Logger>& currentLogger() {
  static std::atomic<abi::Logger> logger{nullptr};
  return logger;
}

}  // namespace

void setLogger(abi::Logger logger) { currentLogger().store(logger, std::memory_order_relaxed); }

void logLine(int level, const std::string& text) {
  if (abi::Logger logger = currentLogger().load(std::memory_order_relaxed)) {
    logger(level, abi::kLogNet, "libnccl-net-bps", 0, "%s", text.c_str());
  } else if (level == abi::kLogWarn) {
    bps::logWarn(Subsystem::kNet, "{}", text);
  } else {
    bps::logInfo(Subsystem::kNet, "{}", text);
  }
}

void logEnvWarning(const std::string& text) {
  if (abi::Logger logger = currentLogger().load(std::memory_order_relaxed))
    logger(abi::kLogWarn, abi::kLogEnv, "libnccl-net-bps", 0, "%s", text.c_str());
  else bps::logEnvWarning(text);
}

}  // namespace bps::plugin
