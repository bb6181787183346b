// Child: one process that bps-run started. It leads its own process group, so that its descendants can be ended with
// it.
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
  bool pipes = true;                     // standard output and error go to bps-run; otherwise they are inherited
};

struct ExitInfo {
  int status = 0;         // exit status, or 128 + signal
  bool bySignal = false;  // killed by a signal, in contrast to an exit with a status above 128
};

class Child {
 public:
  // The calling process must have one thread only. The child dies with bps-run, starts with default signal handlers and
  // has an empty standard input.
  static Result<Child> start(const ChildSpec& spec);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();  // kills the group if the child still runs

  pid_t pid() const { return pid_; }
  // The read ends of its pipes. Each can be taken once.
  UniqueFd takeOutput() { return std::move(output_); }
  UniqueFd takeError() { return std::move(error_); }

  // Sends the signal to the whole group.
  void signal(int number) const;
  // Returns how the child has ended, or nothing if it runs. Once it has ended, kills what is left of its group. Never
  // blocks.
  std::optional<ExitInfo> reap();

 private:
  Child(pid_t pid, UniqueFd output, UniqueFd error) : pid_(pid), output_(std::move(output)), error_(std::move(error)) {}

  pid_t pid_;  // also the group's id; -1: reaped
  UniqueFd output_, error_;
};

}  // namespace bps
