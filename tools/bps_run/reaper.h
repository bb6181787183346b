// Reaper: a small process that cleans up after bps-run, even if bps-run is killed.
//
// The reaper knows the process groups that bps-run has started. The reaper also knows the private
// directory with the key of the run: 32 random bytes in a file of mode 0600. When bps-run ends in
// any way, the pipe from bps-run to the reaper closes. The reaper then kills the groups that
// bps-run has not reported as ended, removes the directory and exits. The reaper runs in a separate
// session and closes the standard files of bps-run. A program that reads bps-run's output therefore
// does not wait for the reaper.
#pragma once
#include <sys/types.h>

#include <string>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

class Reaper {
 public:
  // Starts the reaper process. If `withKey` is true, also creates a new key file.
  static Result<Reaper> start(bool withKey);
  Reaper(Reaper&& other) noexcept;
  Reaper& operator=(Reaper&&) = delete;
  ~Reaper();  // closes the pipe and waits until the reaper process has exited

  const std::string& keyPath() const { return keyPath_; }  // empty if the run has no key file
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
