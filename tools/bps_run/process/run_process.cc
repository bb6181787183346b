#include "tools/bps_run/process/run_process.h"

#include <unistd.h>

#include <cstring>

#include "src/base/format.h"

namespace bps {

Result<std::unique_ptr<RunProcess>> RunProcess::start(RunProcessSpec spec) {
  Child child = BPS_TRY(Child::start(spec.process));
  return std::unique_ptr<RunProcess>(new RunProcess(std::move(spec), std::move(child)));
}

RunProcess::RunProcess(RunProcessSpec spec, Child child)
    : name_(std::move(spec.name)), prefix_("[" + name_ + "] "), child_(std::move(child)), group_(child_.pid()) {
  if (!spec.process.pipes) return;
  readers_.emplace_back(child_.takeOutput(),
                        [this, show = spec.show, onOutputLine = std::move(spec.onOutputLine)](auto line) {
                          if (show) printLine(STDOUT_FILENO, prefix_, line);
                          else if (!onOutputLine) tail_.add(line);
                          if (onOutputLine) onOutputLine(line);
                        });
  readers_.emplace_back(child_.takeError(), [this, show = spec.show](auto line) {
    if (show) printLine(STDERR_FILENO, prefix_, line);
    else tail_.add(line);
  });
}

std::vector<int> RunProcess::descriptors() const {
  std::vector<int> open;
  for (const LineReader& reader : readers_)
    if (reader.fd() >= 0) open.push_back(reader.fd());
  return open;
}

void RunProcess::pump() {
  child_.feed();
  for (LineReader& reader : readers_) reader.pump();
}

bool RunProcess::pollExit() {
  if (ended_) return false;
  ended_ = child_.reap();
  if (!ended_) return false;
  pump();
  return true;
}

std::string RunProcess::exitText() const {
  const auto [status, bySignal] = ended_.value_or(ExitInfo{});
  if (!bySignal) return fmt::format("{} exited with status {}", name_, status);
  return fmt::format("{} was killed by signal {} ({})", name_, status - 128, ::strsignal(status - 128));
}

}  // namespace bps
