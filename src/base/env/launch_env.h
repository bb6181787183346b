// LaunchEnv: the number of this process, the number of processes and the rendezvous address, as a launcher (torchrun,
// mpirun, srun, bps-run) passes them through the environment.
#pragma once
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps {

struct LaunchEnv {
  int process = 0, processes = 1;
  std::string source = "single process";  // the variables that gave these numbers, with their values
  std::string root;                       // the value for BPS_ROOT; empty if BPS_ROOT is set or not needed
  std::vector<std::string> notes;
};

// Uses the first of these pairs that is set: BPS_RANK/BPS_NRANKS, RANK/WORLD_SIZE (torchrun),
// OMPI_COMM_WORLD_RANK/OMPI_COMM_WORLD_SIZE (Open MPI), PMI_RANK/PMI_SIZE (MPICH), SLURM_PROCID/SLURM_NTASKS. If none
// is set, the process is the only one. If BPS_ROOT is unset, the rendezvous address is MASTER_ADDR with port
// MASTER_PORT + 1, because torchrun itself listens on MASTER_PORT. Fails if a value is not a number, or if there are
// several processes and no rendezvous address.
Result<LaunchEnv> readLaunchEnv(Lookup lookup);
// True if `name` is one of the rank and size variables that readLaunchEnv() reads.
bool isLaunchVariable(std::string_view name);

}  // namespace bps
