// Child: one process that bps-run started, in a process group of its own, so that what it starts can be ended with it.
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
  std::vector<std::string> environment;  // NAME=VALUE
  bool pipes = true;                     // standard output and error go to us; else they are ours
};

struct ExitInfo {
  int status = 0;         // 128 + signal for a signal
  bool bySignal = false;  // rather than an exit with such a status
};

class Child {
 public:
  // The caller has one thread only. The process dies with us, starts with default signals and reads nothing.
  static Result<Child> start(const ChildSpec& spec);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();  // kills the group if it still runs

  pid_t pid() const { return pid_; }
  // The read ends of its pipes, to be taken once.
  UniqueFd takeOutput() { return std::move(output_); }
  UniqueFd takeError() { return std::move(error_); }

  // To the whole group.
  void signal(int number) const;
  // How it has ended, once it has; what it left behind in its group is killed then. Never blocks.
  std::optional<ExitInfo> reap();

 private:
  Child(pid_t pid, UniqueFd output, UniqueFd error) : pid_(pid), output_(std::move(output)), error_(std::move(error)) {}

  pid_t pid_;  // also the group's id; -1: reaped
  UniqueFd output_, error_;
};

}  // namespace bps
