// SPDX-License-Identifier: BSD-3-Clause
#include "launchers.hpp"

#include <graticule/partition/error.hpp>

#include <mpi.h>

#include <cstdlib>
#include <string>

namespace graticule::app {

namespace {

/// What a launcher leaves in the environment of each process that it starts, and what replaces it.
struct Launcher {
  char const* name;
  char const* size;
  char const* rank;
  char const* instead;
};

constexpr Launcher pmi{"A launcher of MPICH's kind (PMI)", "PMI_SIZE", "PMI_RANK", GRATICULE_MPIEXEC};
constexpr Launcher mvapich{"MVAPICH's launcher", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", GRATICULE_MPIEXEC};
constexpr Launcher pals{"PALS's launcher", "PALS_NRANKS", "PALS_RANKID", GRATICULE_MPIEXEC};
constexpr Launcher open_mpi{"Open MPI's launcher", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", GRATICULE_MPIEXEC};
#ifdef OPEN_MPI
constexpr char const* mpi_name = "Open MPI";
constexpr Launcher own = open_mpi;
constexpr Launcher foreign = pmi;
constexpr Launcher srun{"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun --mpi=pmix"};
#else
constexpr char const* mpi_name = "MPICH";
constexpr Launcher own = pmi;
constexpr Launcher foreign = open_mpi;
constexpr Launcher srun{"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun --mpi=pmi2"};
#endif

int number(char const* name) {
  char const* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : 0;
}

// From before MPI_Init: where no launcher answers, that of Open MPI (4.1.4) sets PMIX_RANK to 0.
int const pmix_rank = number("PMIX_RANK");

[[noreturn]] void refuse(std::string const& launcher, std::string const& processes, std::string const& instead) {
  throw Error(Fault::usage, "SingleRankWorlds",
              launcher + " started " + processes + " processes, but this program's MPI (" + mpi_name +
                  ") sees one rank in each: start with `" + instead + "` (or pass --allow-single-rank)");
}

}  // namespace

void refuse_accidental_single_ranks(Comm const& comm) {
  // One rank of this MPI's own launcher may run inside a job of another.
  if (comm.num_ranks() > 1 || number(own.size) == 1) return;
  for (auto const& launcher : {own, foreign, mvapich, pals, srun}) {
    if (number(launcher.size) <= 1) continue;
    // Every process is a rank 0 of its own; the launcher's numbers serve to let one of them speak, and for nothing
    // else.
    if (number(launcher.rank) != 0) throw Error(Fault::usage, "SingleRankWorlds", "");
    refuse(launcher.name, std::to_string(number(launcher.size)), launcher.instead);
  }
  // PMIx has no variable for the number of ranks; a rank other than 0 does not come alone.
  if (pmix_rank > 1) throw Error(Fault::usage, "SingleRankWorlds", "");
  if (pmix_rank == 1) refuse("A launcher of PMIx's kind", "several", GRATICULE_MPIEXEC);
}

}  // namespace graticule::app
