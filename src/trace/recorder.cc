#include "src/trace/recorder.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <vector>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/mutex.h"

namespace bps::trace {
namespace {

Status writeAll(int fd, const Blob& bytes, const std::string& path) {
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t count = ::pwrite(fd, bytes.data() + written, bytes.size() - written, static_cast<off_t>(written));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return systemFailure("BPS_TRACE: " + path + " cannot be written", errno);
    written += static_cast<size_t>(count);
  }
  if (::ftruncate(fd, static_cast<off_t>(bytes.size())) != 0 && errno != EINVAL)
    return systemFailure("BPS_TRACE: " + path + " cannot be written", errno);
  return {};
}

// The Recorders of this process. The object is never destroyed, because threads may outlive static objects.
struct Existing {
  Mutex mutex;
  std::vector<Recorder*> recorders BPS_GUARDED_BY(mutex);
  bool handled BPS_GUARDED_BY(mutex) = false;  // writeAtExit() is registered
  const pid_t process = ::getpid();

  static Existing& get() {
    static auto* const existing = new Existing;
    return *existing;
  }
};

// A program may exit without destroying its communicators. A child process after fork() must not write the files of its
// parent process.
void writeAtExit() {
  Existing& existing = Existing::get();
  if (existing.process != ::getpid()) return;
  MutexLock lock(existing.mutex);
  for (Recorder* const recorder : existing.recorders) recorder->writeOrWarn();
}

}  // namespace

Header headerOf(const Roster& roster) {
  Header header;
  header.job = roster.jobId;
  header.machines = static_cast<uint32_t>(roster.machines.size());
  header.ranks = static_cast<uint32_t>(roster.ranks.size());
  for (size_t endpoint = 0; endpoint < roster.endpoints(); ++endpoint)
    header.names.push_back(roster.endpointName(endpoint));
  for (const Machine& machine : roster.machines) header.rates.push_back(machine.bytesPerSecond);
  for (const ServerEntry& server : roster.servers) header.rates.push_back(server.bytesPerSecond);
  return header;
}

Result<std::unique_ptr<Recorder>> Recorder::create(std::string path, Header header,
                                                   std::shared_ptr<const ClockOffset> clock, size_t capacity) {
  std::unique_ptr<Recorder> recorder(new Recorder);
  recorder->fd_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!recorder->fd_) return systemFailure("BPS_TRACE: " + path + " cannot be opened for writing", errno);
  recorder->capacity_ = std::bit_ceil(capacity);
  recorder->memory_ = BPS_TRY(PageBuffer::create(recorder->capacity_ * sizeof(Event)));
  recorder->header_ = std::move(header);
  recorder->clock_ = std::move(clock);
  recorder->path_ = std::move(path);
  Existing& existing = Existing::get();
  MutexLock lock(existing.mutex);
  if (std::exchange(existing.handled, true) == false) std::atexit(writeAtExit);
  existing.recorders.push_back(recorder.get());
  return recorder;
}

Recorder::~Recorder() {
  Existing& existing = Existing::get();
  MutexLock lock(existing.mutex);
  std::erase(existing.recorders, this);
}

void Recorder::yield() { ::sched_yield(); }

File Recorder::snapshot() {
  File file;
  file.header = header_;
  if (clock_ != nullptr) file.clock = clock_->points();
  file.events.resize(capacity_);
  while (locked_.exchange(true, std::memory_order_acquire)) yield();
  const auto* events = reinterpret_cast<const Event*>(memory_.data());
  const uint64_t kept = std::min<uint64_t>(count_, capacity_);
  file.lost = count_ - kept;
  for (uint64_t i = 0; i < kept; ++i) file.events[i] = events[(file.lost + i) & (capacity_ - 1)];
  locked_.store(false, std::memory_order_release);
  file.events.resize(kept);
  return file;
}

Status Recorder::write() {
  const Blob bytes = encode(snapshot());
  MutexLock lock(writing_);
  return writeAll(fd_.get(), bytes, path_);
}

void Recorder::writeOrWarn() {
  const Status written = guarded([this] { return write(); });
  if (!written.ok()) logWarn(Subsystem::kInit, "{}", written.message());
  else logInfo(Subsystem::kInit, "the trace of this process is in {}", path_);
}

Status checkPattern(const std::string& pattern) {
  if (pattern.empty() || pattern.find("%r") != std::string::npos || pattern.find("%p") != std::string::npos) return {};
  return failure(Code::kInvalidArgument,
                 "BPS_TRACE={}: all ranks and servers would write this file; the name needs %r (rank or server) or %p "
                 "(process id)",
                 pattern);
}

std::string fileNameOf(const std::string& server) {
  std::string name = "server-" + server;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '-';
  return name;
}

std::string expandPath(const std::string& pattern, const std::string& name) {
  std::string path;
  for (size_t at = 0; at < pattern.size();) {
    const size_t next = std::min(pattern.find("%r", at), pattern.size());
    path += expandFileName(pattern.substr(at, next - at));
    if (next < pattern.size()) path += name;
    at = next + 2;
  }
  static Mutex mutex;
  static std::map<std::string, unsigned> uses;
  MutexLock lock(mutex);
  const unsigned use = ++uses[path];
  return use == 1 ? path : fmt::format("{}.{}", path, use);
}

}  // namespace bps::trace
