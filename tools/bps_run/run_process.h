// RunProcess: one server or rank of the run: its process, what becomes of its output, and how it ended.
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
  std::string name;  // "rank 3", "server 0": in messages and as the prefix of its lines
  ChildSpec process;
  bool show = false;                                   // lines are shown as they come; else the last of stderr are kept
  std::function<void(std::string_view)> onOutputLine;  // may be empty; hears every line of its standard output
};

class RunProcess {
 public:
  static Result<std::unique_ptr<RunProcess>> start(RunProcessSpec spec);

  const std::string& name() const { return name_; }
  pid_t pid() const { return group_; }
  void signal(int number) const { child_.signal(number); }
  // Descriptors to poll for reading; pump() reads them without blocking.
  std::vector<int> descriptors() const;
  void pump();

  // True once, when it has ended; all that it wrote has been pumped then.
  bool pollExit();
  // Exit status, or 128 + signal; nothing: it runs.
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
