// Warden: a small process that cleans up after bps-run if bps-run itself is killed.
//
// It knows the process groups that bps-run has started and the private directory with the key. When bps-run ends, in
// whatever way, the pipe between them closes; the warden then kills the groups that were not reported as ended, removes
// the directory and exits. It has its own session and no open files of bps-run's, so nothing waits for it.
#pragma once
#include <sys/types.h>

#include <string>

#include "src/base/fd.h"
#include "src/base/status.h"

namespace bps {

class Warden {
 public:
  static Result<Warden> start(const std::string& directory);
  Warden(Warden&& other) noexcept;
  Warden& operator=(Warden&&) = delete;
  ~Warden();  // lets it do its work, and waits for that

  void started(pid_t group) const { tell(group); }
  void ended(pid_t group) const { tell(-group); }

 private:
  Warden(pid_t pid, UniqueFd pipe);
  void tell(pid_t message) const;

  pid_t pid_;
  UniqueFd pipe_;
};

}  // namespace bps
