// The log: one line per event, to standard error or BPS_DEBUG_FILE. An error is logged once, where it is handled.
//
//   2026-11-21 07:51:48.123 host:pid [rank 3] INFO INIT text
//
// With BPS_LOG_FORMAT=json each line is a JSON object with these parts:
//
//   {"time":"2026-11-21T07:51:48.123+0100","host":"host","pid":7,"thread":"rank 3","level":"INFO",...}
//
// The first call of logInit() configures the log; later calls do nothing. All functions are
// thread-safe. Each line is one write(2), so the lines of several processes do not mix. The code
// that moves data does not log.
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
// Opens BPS_DEBUG_FILE again, for example after logrotate has renamed the file. Lines that other threads write
// meanwhile go to one of the two files. Returns false, and keeps the old file, if the file cannot be opened. Without a
// file, does nothing and returns true.
bool logReopen();
// Logs only the INFO lines of this subsystem. A daemon calls logOnlySubsystem() if the user has not
// set a log level.
void logOnlySubsystem(Subsystem subsystem);
// Returns the words of the list that are subsystems of neither bps nor NCCL.
std::vector<std::string> unknownSubsystems(std::string_view list);
// Replaces %h by the host name and %p by the process id.
std::string expandFileName(const std::string& pattern);
// Sets the name that this thread's lines show in brackets, for example "rank 3" or "server".
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
