// The log of the plugin. It writes to the log function that the caller passed to init, so the lines
// appear in the caller's log. Any thread may call these functions.
#pragma once
#include <fmt/core.h>

#include <string>
#include <utility>

#include "net_plugin/abi.h"

namespace bps::plugin {

// Sets the log function of the whole plugin. If `logger` is null, the plugin uses the log of
// src/base.
void setLogger(abi::Logger logger);
void logLine(int level, const std::string& text);
// Warns of an invalid environment variable. The log function of bps drops these lines, because bps
// reads the same environment and has already warned.
void logEnvWarning(const std::string& text);

template <class... Args>
void logInfo(fmt::format_string<Args...> text, Args&&... args) {
  logLine(abi::kLogInfo, fmt::format(text, std::forward<Args>(args)...));
}
// Logs the reason why a call fails, before the call returns its error code. Also logs other
// conditions that the user should know.
template <class... Args>
void logWarn(fmt::format_string<Args...> text, Args&&... args) {
  logLine(abi::kLogWarn, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace bps::plugin
