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
  // Written to the child's standard input, which then stays open until the child has ended. If empty, the standard
  // input has no bytes.
  std::string input{};
};

struct ExitInfo {
  int status = 0;         // exit status, or 128 + signal number
  bool bySignal = false;  // true if a signal killed the child
};

class Child {
 public:
  // Starts a child. The calling process must have only one thread. The child dies with bps-run,
  // and starts with the default signal handlers.
  static Result<Child> start(const ChildSpec& spec);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();  // kills the process group if the child still runs

  pid_t pid() const { return pid_; }
  // The read ends of the child's pipes. The caller can take each pipe only one time.
  UniqueFd takeOutput() { return std::move(output_); }
  UniqueFd takeError() { return std::move(error_); }

  // Writes as much of the child's input as its pipe takes. Never blocks.
  void feed();
  // The descriptor that can take more of the input, or -1 if there is no more.
  int feedDescriptor() const { return unsent_.empty() ? -1 : input_.get(); }
  // Sends the signal to the child's process group. If the child has an input, every signal but SIGKILL closes the input
  // instead: this is how a remote script learns that it has to end, and the connection lives until its last output.
  void signal(int number);
  // Returns how the child has ended, or nothing if the child runs. If the child has ended, kills
  // the remaining processes of its group. Never blocks.
  std::optional<ExitInfo> reap();

 private:
  Child(pid_t pid, UniqueFd output, UniqueFd error) : pid_(pid), output_(std::move(output)), error_(std::move(error)) {}

  pid_t pid_;  // also the id of the process group; -1 after reap() has seen the end
  UniqueFd output_, error_, input_;
  std::string unsent_;  // the rest of the input
};

}  // namespace bps
