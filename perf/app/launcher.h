// Which process of how many this is, as its launcher says through the environment; and what of the environment may be
// shown. The only part of bps-perf that reads environment variables.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps::perf {

struct Place {
  int process = 0, processes = 1;
  std::string source = "single process";  // the variables it comes from
  std::string root;                       // BPS_ROOT to be set, if not empty
  std::vector<std::string> notes;
};

// BPS_RANK/BPS_NRANKS, torchrun, Open MPI, PMI, Slurm, else a single process. Fails when a variable is no number, or
// when several processes have no place to meet.
Result<Place> findPlace(Lookup lookup);
// The group of a process, by which nccl-tests splits the ranks, from NCCL_TESTS_SPLIT_MASK (hexadecimal) or
// NCCL_TESTS_SPLIT (AND, OR, MOD or DIV, or & | % /, and a number: 0b…, 0x… or decimal). Nothing: one group of all.
Result<std::optional<int>> splitColor(Lookup lookup, int process);

Lookup processLookup();
void setRoot(const std::string& root);
// BPS_*, NCCL_* and launchers' variables, without anything that may be a secret.
std::map<std::string, std::string> shownEnvironment(const char* const* environment);
const char* const* processEnvironment();

}  // namespace bps::perf
