// Reaper: a small process that cleans up after bps-run, also when bps-run itself is killed.
//
// It knows the process groups that bps-run has started and the private directory with the run's key: 32 random bytes in
// a file of mode 0600. When bps-run ends, in whatever way, the pipe between them closes; the warden then kills the
// groups that were not reported as ended, removes the directory and exits. It has its own session and no standard
// files of bps-run's, so nothing waits for it.
#pragma once
#include <sys/types.h>

#include <string>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

class Reaper {
 public:
  // With a new key file, or without.
  static Result<Reaper> start(bool withKey);
  Reaper(Reaper&& other) noexcept;
  Reaper& operator=(Reaper&&) = delete;
  ~Reaper();  // lets it do its work, and waits for that

  const std::string& keyPath() const { return keyPath_; }  // empty: no key was asked for
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
