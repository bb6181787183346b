// bps-perf and the environment: the variables that only bps-perf reads (the library's own are in src/base/env.h, those
// that give rank and size in src/base/env/launch_env.h), and which variables a report may show.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "src/base/env.h"
#include "src/base/env/launch_env.h"
#include "src/base/status.h"

namespace bps::perf {

// The group of a process, by which nccl-tests splits the ranks, from NCCL_TESTS_SPLIT_MASK (hexadecimal) or
// NCCL_TESTS_SPLIT (AND, OR, MOD or DIV, or & | % /, and a number: 0b…, 0x… or decimal). Nothing: one group of all.
Result<std::optional<int>> splitColor(Lookup lookup, int process);

void setRoot(const std::string& root);
// BPS_*, NCCL_* and launchers' variables, without anything that may be a secret.
std::map<std::string, std::string> shownEnvironment(const char* const* environment);
const char* const* processEnvironment();

}  // namespace bps::perf
