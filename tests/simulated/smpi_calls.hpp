// SPDX-License-Identifier: BSD-3-Clause
// Calls of the simulated MPI of SimGrid, counted, with what SimGrid 3.32 lacks.
#pragma once

namespace graticule::simulated {

/// Of one rank, since its start.
struct Counts {
  long messages = 0;  ///< sends, starts of persistent sends included; those within MPI's collective calls are not
  long bytes = 0;
  long tests = 0;  ///< tests of requests and probes
};

[[nodiscard]] Counts const& counts();

}  // namespace graticule::simulated
