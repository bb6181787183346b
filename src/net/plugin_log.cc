#include "src/net/plugin_log.h"

#include <array>
#include <cstdarg>
#include <cstdio>

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps::net {
namespace {

PluginCall*& currentCall() {
  thread_local PluginCall* call = nullptr;
  return call;
}

Code codeOf(int result) {
  return result > 0 && result <= static_cast<int>(Code::kTimeout) ? static_cast<Code>(result) : Code::kInternal;
}

}  // namespace

extern "C" __attribute__((format(printf, 5, 6))) void bpsPluginLogger(int level, unsigned long subsystem, const char*,
                                                                      int, const char* format, ...) {
  // Drop warnings about the environment. The plugin of bps reads the same environment as libbps.so, and libbps.so has
  // already logged these warnings.
  if (subsystem == abi::kLogEnv) return;
  const LogLevel ours = level == abi::kLogWarn   ? LogLevel::kWarn
                        : level == abi::kLogInfo ? LogLevel::kInfo
                                                 : LogLevel::kTrace;
  if (ours != LogLevel::kWarn && !logEnabled(ours, Subsystem::kNet)) return;
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  if (ours == LogLevel::kWarn && currentCall() != nullptr) currentCall()->addWarning(text.data());
  else if (logEnabled(ours, Subsystem::kNet)) logWrite(ours, Subsystem::kNet, text.data());
}

abi::Logger pluginLogger() { return bpsPluginLogger; }

PluginCall::PluginCall() : outer_(currentCall()) { currentCall() = this; }

PluginCall::~PluginCall() {
  currentCall() = outer_;
  if (!warning_.empty()) logWarn(Subsystem::kNet, "{}", warning_);
}

void PluginCall::addWarning(std::string text) {
  if (!warning_.empty()) logWarn(Subsystem::kNet, "{}", warning_);
  warning_ = std::move(text);  // the last warning usually gives the cause of the failure
}

Status PluginCall::outcome(int code, const std::string& plugin, const char* call) {
  if (code == abi::kSuccess) return {};
  std::string why = std::exchange(warning_, {});
  if (why.empty()) why = fmt::format("{} failed ({})", call, code);
  return failure(codeOf(code), "net plugin {}: {}", plugin, why);
}

}  // namespace bps::net
