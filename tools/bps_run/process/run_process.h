// RunProcess: one server or rank of the run. A RunProcess has the process, its output and its exit
// status.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "tools/bps_run/process/child.h"
#include "tools/bps_run/process/line_reader.h"

namespace bps {

struct RunProcessSpec {
  std::string name;  // such as "rank 3" or "server 0"; the prefix of messages and output lines
  ChildSpec process;
  // If true, lines are shown as they arrive. If false, only the last lines are kept.
  bool show = false;
  std::function<void(std::string_view)> onOutputLine;  // receives every line of standard output; may be empty
};

class RunProcess {
 public:
  static Result<std::unique_ptr<RunProcess>> start(RunProcessSpec spec);

  const std::string& name() const { return name_; }
  pid_t pid() const { return group_; }
  void signal(int number) { child_.signal(number); }
  // Returns the file descriptors to poll for input. pump() reads from them without blocking.
  std::vector<int> descriptors() const;
  int feedDescriptor() const { return child_.feedDescriptor(); }  // to poll for output; -1 if there is none
  void pump();

  // Returns true one time, when the process has ended. All output of the process has then been
  // read.
  bool pollExit();
  // Returns the exit status, or 128 + signal number. Returns nothing while the process runs.
  std::optional<int> status() const { return ended_ ? std::optional(ended_->status) : std::nullopt; }
  std::string exitText() const;  // such as "rank 3 exited with status 1"
  void printTail() { tail_.print(prefix_); }

 private:
  RunProcess(RunProcessSpec spec, Child child);

  std::string name_, prefix_;
  Child child_;
  pid_t group_;
  std::optional<ExitInfo> ended_;
  LineTail tail_;
  std::vector<LineReader> readers_;
};

}  // namespace bps
