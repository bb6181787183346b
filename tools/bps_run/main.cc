// bps-run: simulates a cluster on one machine. bps-run starts servers and the ranks of worker
// machines as processes.
#include <unistd.h>

#include <string>
#include <utility>

#include "tools/bps_run/environment.h"
#include "tools/bps_run/launcher.h"
#include "tools/bps_run/options.h"
#include "tools/bps_run/process/line_reader.h"
#include "tools/bps_run/reaper.h"

namespace bps {
namespace {

Result<int> run(const RunOptions& options) {
  const bool withKey = options.startsServers() || environmentValue("BPS_KEY_FILE").empty();
  return Launcher(options, BPS_TRY(Reaper::start(withKey))).run();
}

int main(int argc, char** argv) {
  const ParsedOptions parsed = parseOptions(argc, argv);
  if (parsed.exit) return *parsed.exit;
  const std::string& command = parsed.options.command.front();
  const bool here = parsed.options.hosts.empty();
  const Program program = here ? findProgram(command) : Program{command};  // the other machines look for it
  if (program.status != 0) {
    printLine(STDERR_FILENO,
              "bps-run: ", command + (program.status == 127 ? ": command not found" : ": not an executable file"));
    return program.status;
  }
  auto ran = run(parsed.options);
  if (ran.ok()) return std::move(ran).value();
  printLine(STDERR_FILENO, "bps-run: ", ran.error().message());
  return 1;
}

}  // namespace
}  // namespace bps

int main(int argc, char** argv) { return bps::main(argc, argv); }
