// Which process of how many this is, as its launcher says through the environment, and where the processes meet.
#pragma once
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps {

struct LaunchEnv {
  int process = 0, processes = 1;
  std::string source = "single process";  // the variables it comes from
  std::string root;                       // stands in for BPS_ROOT, if not empty
  std::vector<std::string> notes;
};

// The first pair that is set, of BPS_RANK/BPS_NRANKS, RANK/WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK/_SIZE (Open
// MPI), PMI_RANK/PMI_SIZE (MPICH), SLURM_PROCID/SLURM_NTASKS; none: a single process. Where BPS_ROOT is unset,
// processes meet at MASTER_ADDR and port MASTER_PORT + 1: torchrun's own meeting point uses MASTER_PORT. Fails when a
// variable is no number, or when several processes have no place to meet.
Result<LaunchEnv> readLaunchEnv(Lookup lookup);
// The names above.
bool isLaunchVariable(std::string_view name);

}  // namespace bps
