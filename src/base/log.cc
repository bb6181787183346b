#include "src/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <ctime>
#include <mutex>
#include <span>

#include "src/base/env.h"
#include "src/base/text/utf8.h"

namespace bps {
namespace {

struct Sink {
  std::atomic<bool> json{false};
  std::string path;  // set by logInit() before other threads log
  std::atomic<unsigned> subsystems{~0U};
  std::atomic<int> fd{STDERR_FILENO};
};

Sink& sink() {
  static Sink instance;
  return instance;
}

std::string& threadName() {
  thread_local std::string name;
  return name;
}

std::string hostName() {
  std::array<char, 65> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

LogLevel levelOf(const std::string& word) {
  if (word == "NONE") return LogLevel::kNone;
  if (word == "INFO") return LogLevel::kInfo;
  if (word == "TRACE") return LogLevel::kTrace;
  return LogLevel::kWarn;
}

constexpr std::array<std::pair<std::string_view, Subsystem>, 7> kSubsystems{{{"INIT", Subsystem::kInit},
                                                                             {"COLL", Subsystem::kColl},
                                                                             {"NET", Subsystem::kNet},
                                                                             {"SERVER", Subsystem::kServer},
                                                                             {"ENV", Subsystem::kEnv},
                                                                             {"TOPO", Subsystem::kTopo},
                                                                             {"ALL", Subsystem::kAll}}};

// Subsystems that only NCCL has. NCCL_DEBUG_SUBSYS may list them; bps ignores them.
constexpr std::array<std::string_view, 12> kSubsystemsOfNccl{"P2P",   "SHM",  "GRAPH",     "TUNING", "ALLOC",   "CALL",
                                                             "PROXY", "NVLS", "BOOTSTRAP", "REG",    "PROFILE", "RAS"};

std::string upperCase(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

// Splits the list at commas, in upper case. Sets `exclude` if the list begins with ^.
std::vector<std::string> wordsOf(std::string_view list, bool& exclude) {
  exclude = list.starts_with("^");
  if (exclude) list.remove_prefix(1);
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    if (!word.empty()) words.push_back(upperCase(word));
  }
  return words;
}

unsigned maskOf(std::string_view word) {
  for (const auto& [name, bit] : kSubsystems)
    if (word == name) return static_cast<unsigned>(bit);
  return 0;
}

unsigned subsystemsOf(std::string_view text) {
  if (text.empty()) return ~0U;
  bool exclude = false;
  unsigned mask = 0;
  for (const std::string& word : wordsOf(text, exclude)) mask |= maskOf(word);
  return exclude ? ~mask : mask;
}

std::string_view nameOf(Subsystem subsystem) {
  for (const auto& [name, bit] : kSubsystems)
    if (bit == subsystem) return name;
  return "";
}

struct Line {
  LogLevel level;
  Subsystem subsystem;
  std::string_view text;
};

// `zone` adds the difference from UTC, as ISO 8601 writes it.
std::string timeStamp(char separator, bool zone) {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 8> offset{};
  if (zone) std::strftime(offset.data(), offset.size(), "%z", &parts);
  return fmt::format("{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}.{:03}{}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, separator, parts.tm_hour, parts.tm_min, parts.tm_sec, ms, offset.data());
}

const char* wordOf(LogLevel level) { return level == LogLevel::kWarn ? "WARN" : "INFO"; }

// Control characters are replaced, because the text may contain a peer's input and must stay on one line.
std::string asText(const Line& line) {
  const std::string& who = threadName();
  std::string text =
      fmt::format("{} {}:{} {}bps {} {} {}\n", timeStamp(' ', false), hostName(), ::getpid(),
                  who.empty() ? "" : fmt::format("[{}] ", who), wordOf(line.level), nameOf(line.subsystem), line.text);
  for (char& c : std::span(text).first(text.size() - 1))
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = c == '\n' || c == '\t' ? ' ' : '?';
  return text;
}

std::string asJson(const Line& line) {
  return fmt::format(R"({{"time":"{}","host":"{}","pid":{},"thread":"{}","level":"{}","subsystem":"{}","text":"{}"}})"
                     "\n",
                     timeStamp('T', true), jsonEscaped(hostName()), ::getpid(), jsonEscaped(threadName()),
                     wordOf(line.level), nameOf(line.subsystem), jsonEscaped(line.text));
}

int openLog(const std::string& path) { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644); }

}  // namespace

std::vector<std::string> unknownSubsystems(std::string_view list) {
  bool exclude = false;
  std::vector<std::string> words = wordsOf(list, exclude);
  std::erase_if(words, [](const std::string& word) {
    return maskOf(word) != 0 ||
           std::find(kSubsystemsOfNccl.begin(), kSubsystemsOfNccl.end(), word) != kSubsystemsOfNccl.end();
  });
  return words;
}

std::string expandFileName(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') path += hostName();
    if (next == 'p') path += std::to_string(::getpid());
    if (next == 'h' || next == 'p') ++i;
    else path += pattern[i];
  }
  return path;
}

std::atomic<int>& logLevel() {
  static std::atomic<int> level{static_cast<int>(LogLevel::kWarn)};
  return level;
}

void logInit(const Env& env) {
  static std::once_flag once;
  std::call_once(once, [&] {
    logLevel() = static_cast<int>(levelOf(env.debug));
    sink().subsystems = subsystemsOf(env.debugSubsys);
    sink().json = env.logFormat == "json";
    if (env.debugFile.empty()) return;
    const std::string path = expandFileName(env.debugFile);
    const int fd = openLog(path);
    if (fd < 0)
      logWarn(Subsystem::kEnv, "{}={}: cannot be opened, logging to standard error", env.nameInUse("BPS_DEBUG_FILE"),
              path);
    else sink().fd = fd;
    sink().path = fd < 0 ? "" : path;
  });
}

// dup3() replaces the file behind the descriptor in one step, so a thread that writes at the same time never finds the
// descriptor closed.
bool logReopen() {
  if (sink().path.empty()) return true;
  const int fd = openLog(sink().path);
  if (fd < 0) return false;
  const bool replaced = ::dup3(fd, sink().fd, O_CLOEXEC) >= 0;
  ::close(fd);
  return replaced;
}

void logOnlySubsystem(Subsystem subsystem) {
  logLevel() = static_cast<int>(LogLevel::kInfo);
  sink().subsystems = static_cast<unsigned>(subsystem);
}

void logThreadName(std::string name) { threadName() = std::move(name); }
const std::string& logThreadName() { return threadName(); }

bool logEnabled(LogLevel level, Subsystem subsystem) {
  if (static_cast<int>(level) > logLevel().load(std::memory_order_relaxed)) return false;
  return level == LogLevel::kWarn || (sink().subsystems & static_cast<unsigned>(subsystem)) != 0;
}

void logWrite(LogLevel level, Subsystem subsystem, std::string_view text) {
  const Line line{level, subsystem, text};
  const std::string written = sink().json ? asJson(line) : asText(line);
  [[maybe_unused]] const ssize_t bytes = ::write(sink().fd, written.data(), written.size());
}

}  // namespace bps
