// The environment variables that only bps-perf reads, and the variables that a report may show. The library's variables
// are in src/base/env.h, those that give rank and size in src/base/env/launch_env.h.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "src/base/env.h"
#include "src/base/env/launch_env.h"
#include "src/base/status.h"

namespace bps::perf {

// The color of a process when ranks are split as in nccl-tests, from NCCL_TESTS_SPLIT_MASK (hexadecimal) or
// NCCL_TESTS_SPLIT (AND, OR, MOD, DIV or & | % /, then a number: 0b…, 0x… or decimal). Empty: the ranks are not split.
Result<std::optional<int>> splitColor(Lookup lookup, int process);

void setRoot(const std::string& root);
// The BPS_* and NCCL_* variables and those of launchers, except those that may hold a secret.
std::map<std::string, std::string> shownEnvironment(const char* const* environment);
const char* const* processEnvironment();

}  // namespace bps::perf
