// Reaper: a small process that cleans up after bps-run, even if bps-run is killed.
//
// It knows the process groups that bps-run has started and the private directory with the run's key: 32 random bytes in
// a file of mode 0600. When bps-run ends in any way, the pipe between them closes. The reaper then kills the groups
// that were not reported as ended, removes the directory and exits. It runs in its own session and keeps none of
// bps-run's standard files open, so no reader of those waits for it.
#pragma once
#include <sys/types.h>

#include <string>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

class Reaper {
 public:
  // Creates a new key file if `withKey`.
  static Result<Reaper> start(bool withKey);
  Reaper(Reaper&& other) noexcept;
  Reaper& operator=(Reaper&&) = delete;
  ~Reaper();  // closes the pipe and waits until the reaper has exited

  const std::string& keyPath() const { return keyPath_; }  // empty without a key
  void started(pid_t group) const { tell(group); }
  void ended(pid_t group) const { tell(-group); }

 private:
  Reaper(pid_t pid, UniqueFd pipe, std::string keyPath);
  void tell(pid_t message) const;

  pid_t pid_;
  UniqueFd pipe_;
  std::string keyPath_;
};

}  // namespace bps
