// The log: one line per event on stderr or BPS_DEBUG_FILE, in NCCL's habit. Errors are logged once, where handled.
//
//   2026-11-21 07:51:48.123 host:pid [rank 3] INFO INIT text
//
// Configured once from Env (logInit, first caller wins); thread-safe; a line is written by one write(2), so lines of
// several processes on one terminal do not mix. Nothing on the data path logs.
#pragma once
#include <fmt/core.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bps {

struct Env;

enum class LogLevel : int { kNone = 0, kWarn = 1, kInfo = 2, kTrace = 3 };
enum class Subsystem : unsigned { kInit = 1, kColl = 2, kNet = 4, kServer = 8, kEnv = 16, kTopo = 32, kAll = ~0U };

void logInit(const Env& env);
// INFO lines of this subsystem are shown too, and of no other: for a program that is a daemon, if the user said
// nothing.
void logOnlySubsystem(Subsystem subsystem);
// The words of a list of subsystems that neither bps nor NCCL has.
std::vector<std::string> unknownSubsystems(std::string_view list);
// What a file name in a setting stands for: %h is the host's name, %p the process's id.
std::string expandFileName(const std::string& pattern);
// The name in brackets on this thread's lines: "rank 3", "server".
void logThreadName(std::string name);
const std::string& logThreadName();
std::atomic<int>& logLevel();
bool logEnabled(LogLevel level, Subsystem subsystem);
void logWrite(LogLevel level, Subsystem subsystem, std::string_view text);

template <class... Args>
void logWarn(Subsystem subsystem, fmt::format_string<Args...> text, Args&&... args) {
  if (logEnabled(LogLevel::kWarn, subsystem))
    logWrite(LogLevel::kWarn, subsystem, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void logInfo(Subsystem subsystem, fmt::format_string<Args...> text, Args&&... args) {
  if (logEnabled(LogLevel::kInfo, subsystem))
    logWrite(LogLevel::kInfo, subsystem, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace bps
