// ServiceManager: tells systemd, or another service manager with the same protocol, how a service is. A message is one
// datagram to the Unix socket in $NOTIFY_SOCKET, with lines such as "READY=1". Without this variable, all functions
// do nothing.
//
// Only one thread at a time may use a ServiceManager.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

class ServiceManager {
 public:
  // Reads the variables. Fails if NOTIFY_SOCKET or WATCHDOG_USEC has no valid value.
  static Result<ServiceManager> fromEnv();

  bool present() const { return static_cast<bool>(socket_); }
  // The interval at which the manager expects WATCHDOG=1, if it expects it from this process.
  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }
  // Sends the lines and, if `status` is not empty and differs from the last one, a status line. A message that does not
  // arrive is lost: the manager may have ended, and the service goes on without it.
  void notify(std::string_view lines, const std::string& status = "");

 private:
  ServiceManager() = default;

  UniqueFd socket_;
  std::string path_;
  std::string lastStatus_;
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace bps
