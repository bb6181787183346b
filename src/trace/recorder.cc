#include "src/trace/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>

#include "src/base/format.h"
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

}  // namespace

Header headerOf(const Roster& roster, const std::vector<uint64_t>& weights) {
  Header header;
  header.job = roster.jobId;
  header.machines = static_cast<uint32_t>(roster.machines.size());
  header.ranks = static_cast<uint32_t>(roster.ranks.size());
  header.shares = weights;
  for (size_t endpoint = 0; endpoint < roster.endpoints(); ++endpoint) header.names.push_back(roster.endpointName(endpoint));
  for (const Machine& machine : roster.machines) header.rates.push_back(machine.bytesPerSecond);
  for (const ServerEntry& server : roster.servers) header.rates.push_back(server.bytesPerSecond);
  return header;
}

Result<std::unique_ptr<Recorder>> Recorder::create(std::string path, Header header,
                                                   std::shared_ptr<const ClockOffset> clock, size_t capacity) {
  std::unique_ptr<Recorder> recorder(new Recorder);
  recorder->fd_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!recorder->fd_) return systemFailure("BPS_TRACE: " + path + " cannot be opened", errno);
  recorder->memory_ = BPS_TRY(PageBuffer::create(capacity * sizeof(Event)));
  recorder->capacity_ = capacity;
  recorder->header_ = std::move(header);
  recorder->clock_ = std::move(clock);
  recorder->path_ = std::move(path);
  return recorder;
}

Status Recorder::write() {
  File file;
  file.header = header_;
  if (clock_ != nullptr) file.clock = clock_->estimate();
  const uint64_t kept = std::min<uint64_t>(count_, capacity_);
  file.lost = count_ - kept;
  file.events.reserve(kept);
  const auto* events = reinterpret_cast<const Event*>(memory_.data());
  for (uint64_t i = file.lost; i < count_; ++i) file.events.push_back(events[i % capacity_]);
  return writeAll(fd_.get(), encode(file), path_);
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
