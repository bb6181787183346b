// Reads the environment variables that only bps-perf uses, and selects the variables that a report
// may show. src/base/env.h describes the library's variables. src/base/env/launch_env.h describes
// the variables that give a process its rank and the number of ranks.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "src/base/env.h"
#include "src/base/env/launch_env.h"
#include "src/base/status.h"

namespace bps::perf {

// Returns the color of a process if the ranks are split as in nccl-tests; processes of one color
// form a communicator. NCCL_TESTS_SPLIT_MASK holds a hexadecimal number. NCCL_TESTS_SPLIT holds
// AND, OR, MOD or DIV (or & | % /), then a number (0b…, 0x… or decimal). The result is empty if
// neither variable is set.
Result<std::optional<int>> splitColor(Lookup lookup, int process);

void setRoot(const std::string& root);
// Returns the variables BPS_* and NCCL_* and the variables of launchers, except those that may hold
// a secret.
std::map<std::string, std::string> shownEnvironment(const char* const* environment);
const char* const* processEnvironment();

}  // namespace bps::perf
