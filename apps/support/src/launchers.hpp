// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <graticule/partition/comm.hpp>

namespace graticule::app {

/// Throws `SingleRankWorlds` in a world of one rank whose launcher says that it started several processes: it does not
/// speak this MPI's language, so each would do all the work and all would write the same files. One of them has the
/// text, the errors of the others are empty.
///
/// Known are srun, Open MPI's launcher, those of MPICH's kind (PMI), and those of PMIx.
void refuse_accidental_single_ranks(Comm const& comm);

}  // namespace graticule::app
