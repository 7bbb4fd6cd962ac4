// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/halo/axis_sum.hpp>

#include "cases.hpp"

namespace graticule::swe {

/// Integrals over the sphere, with the same bits for every layout.
struct Invariants {
  double mass = 0;       ///< mean depth (m)
  double energy = 0;     ///< mean of kinetic and available potential energy per density (m3/s2)
  double enstrophy = 0;  ///< mean of half the depth times the square of potential vorticity (1/(m s2)); 0 for a fixed
                         ///< wind, whose fluid may be absent
};

/// Normalised errors of the depth, as Williamson et al. 1992, equations 82 to 84.
struct HeightErrors {
  double l1 = 0, l2 = 0, linf = 0;
};

/// Diagnostics of one solver's state. Calls are collective.
class Diagnostics {
 public:
  explicit Diagnostics(Solver& solver);

  /// Exchanges the halo of the state first.
  [[nodiscard]] Invariants invariants();
  /// @param exact on the owned cells
  [[nodiscard]] HeightErrors errors(Cells const& exact);
  /// Relative vorticity and divergence at the centres (1/s), winds there (m/s), on the owned cells.
  struct Centred {
    Cells u, v, vorticity, divergence;
  };
  [[nodiscard]] Centred centred();

 private:
  template <class Value>
  [[nodiscard]] double mean(Value const& value);

  Solver& solver_;
  AreaSum mean_;
  Cells values_;
};

}  // namespace graticule::swe
