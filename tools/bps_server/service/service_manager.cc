#include "tools/bps_server/service/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

constexpr size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

const char* valueOf(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

Result<uint64_t> numberIn(const char* name, std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && number > 0) return number;
  return failure(Code::kInvalidArgument, "{}={}: not a positive number", name, text);
}

}  // namespace

Result<ServiceManager> ServiceManager::fromEnv() {
  ServiceManager manager;
  const char* const path = valueOf("NOTIFY_SOCKET");
  if (path == nullptr) return manager;
  manager.path_ = path;
  if ((path[0] != '/' && path[0] != '@') || manager.path_.size() < 2 || manager.path_.size() > kMaxPath)
    return failure(Code::kInvalidArgument, "NOTIFY_SOCKET={}: neither a path nor @NAME of at most {} bytes", path,
                   kMaxPath);
  manager.socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!manager.socket_) return systemFailure("socket", errno);
  const char* const interval = valueOf("WATCHDOG_USEC");
  if (interval == nullptr) return manager;
  const uint64_t microseconds = BPS_TRY(numberIn("WATCHDOG_USEC", interval));
  const char* const pid = valueOf("WATCHDOG_PID");
  if (pid == nullptr || BPS_TRY(numberIn("WATCHDOG_PID", pid)) == static_cast<uint64_t>(::getpid()))
    manager.watchdog_ = std::chrono::microseconds(microseconds);
  return manager;
}

void ServiceManager::notify(std::string_view lines, const std::string& status) {
  if (!socket_) return;
  std::string message(lines);
  if (!status.empty() && status != lastStatus_) {
    message += "STATUS=" + status + "\n";
    lastStatus_ = status;
  }
  if (message.empty()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  if (path_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
  const ssize_t sent = ::sendto(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), size);
  if (sent < 0) logWarn(Subsystem::kServer, "NOTIFY_SOCKET={}: {}", path_, std::strerror(errno));
}

}  // namespace bps
