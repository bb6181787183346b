// Child: one process that bps-run has started. The process leads a process group, so that bps-run
// can end it together with its descendants.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

struct ChildSpec {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // each string is NAME=VALUE
  bool pipes = true;  // true if bps-run reads the output; false if the child inherits bps-run's output
};

struct ExitInfo {
  int status = 0;         // exit status, or 128 + signal number
  bool bySignal = false;  // true if a signal killed the child
};

class Child {
 public:
  // Starts a child. The calling process must have only one thread. The child dies with bps-run,
  // starts with the default signal handlers and has an empty standard input.
  static Result<Child> start(const ChildSpec& spec);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();  // kills the process group if the child still runs

  pid_t pid() const { return pid_; }
  // The read ends of the child's pipes. The caller can take each pipe only one time.
  UniqueFd takeOutput() { return std::move(output_); }
  UniqueFd takeError() { return std::move(error_); }

  // Sends the signal to the child's process group.
  void signal(int number) const;
  // Returns how the child has ended, or nothing if the child runs. If the child has ended, kills
  // the remaining processes of its group. Never blocks.
  std::optional<ExitInfo> reap();

 private:
  Child(pid_t pid, UniqueFd output, UniqueFd error) : pid_(pid), output_(std::move(output)), error_(std::move(error)) {}

  pid_t pid_;  // also the id of the process group; -1 after reap() has seen the end
  UniqueFd output_, error_;
};

}  // namespace bps
