// RunProcess: one server or rank of the run: its process, its output and its exit status. The Launcher owns it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "tools/bps_run/child.h"
#include "tools/bps_run/line_reader.h"

namespace bps {

struct RunProcessSpec {
  std::string name;  // "rank 3" or "server 0", for messages and as the prefix of its lines
  ChildSpec process;
  // show lines as they arrive; otherwise keep the last ones of standard error
  bool show = false;
  std::function<void(std::string_view)> onOutputLine;  // receives every line of standard output; may be empty
};

class RunProcess {
 public:
  static Result<std::unique_ptr<RunProcess>> start(RunProcessSpec spec);

  const std::string& name() const { return name_; }
  pid_t pid() const { return group_; }
  void signal(int number) const { child_.signal(number); }
  // File descriptors to poll for input. pump() reads them without blocking.
  std::vector<int> descriptors() const;
  void pump();

  // True once, when the process has ended. All its output has been read then.
  bool pollExit();
  // Exit status, or 128 + signal; nothing while it runs.
  std::optional<int> status() const { return ended_ ? std::optional(ended_->status) : std::nullopt; }
  std::string exitText() const;  // "rank 3 exited with status 1"
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
