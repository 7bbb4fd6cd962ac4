// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "solver.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace graticule::swe {

/// Which experiment, and what it depends on.
struct CaseOptions {
  std::string name = "2";  ///< "1", "2", "5", "6", "galewsky" or "random"
  double angle = 0;        ///< radians, between the axes of the flow and of the planet; cases 1 and 2
  std::uint64_t seed = 1;  ///< of "random"
};

/// Names of all cases, for help and errors.
[[nodiscard]] std::vector<std::string> case_names();
/// What a case is, in one sentence with its source.
[[nodiscard]] std::string describe(std::string const& name);
/// Days that the case is usually run for.
[[nodiscard]] double default_days(std::string const& name);
/// The scheme that the case needs whatever the user asks for: a fixed wind for case 1.
[[nodiscard]] std::optional<Scheme> forced_scheme(std::string const& name);

/// The planet of a case: that of case 2 rotates about the axis of its flow.
[[nodiscard]] Planet planet_of(CaseOptions const& options);

/// Sets state and surface of the owned cells, and their halos. Cells depend on their place alone, so that every layout
/// has the same bits. Collective.
/// Sources: cases 1, 2, 5, 6 of Williamson et al. 1992, J. Comput. Phys. 102, 211; Galewsky et al. 2004, Tellus 56A,
/// 429, with the disturbance; `random` is a random rotational wind of 20 m/s in linear balance on a depth of 10 km.
void set_initial_state(Solver& solver, CaseOptions const& options);

/// The exact depth after `seconds` on the owned cells, where it is known: cases 1 and 2.
[[nodiscard]] std::optional<Cells> exact_depth(Solver const& solver, CaseOptions const& options, double seconds);

}  // namespace graticule::swe
