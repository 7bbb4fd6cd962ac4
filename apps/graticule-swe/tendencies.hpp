// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "grid.hpp"

#include <cstdint>

namespace graticule::swe {

enum class Scheme : std::uint8_t {
  enstrophy,     ///< Sadourny 1975: conserves potential enstrophy
  arakawa_lamb,  ///< Arakawa and Lamb 1981: conserves potential enstrophy and total energy
  fixed_wind,    ///< h alone, carried by a wind that does not change
};

/// Cells on each side of a cell that its tendencies read.
[[nodiscard]] constexpr Index reach(Scheme scheme) noexcept { return scheme == Scheme::arakawa_lamb ? 2 : 1; }

/// Potential vorticity of the poles (1/(m s)), each one value, and their relative vorticity (1/s).
struct Poles {
  double south = 0;
  double north = 0;
  double south_vorticity = 0;
  double north_vorticity = 0;
};

/// d/dt of the cells of `box`, in units per second. The same operations for each cell whatever the box is.
/// @param state with valid values up to `reach(scheme)` cells around the box, but for rows beyond the poles
/// @param surface height of the ground (m), on the same cells as `state`
/// Source: Sadourny 1975, J. Atmos. Sci. 32, 680; Arakawa and Lamb 1981, Mon. Wea. Rev. 109, 18. Cost: about 100
/// operations per cell
void compute_tendencies(Grid const& grid, Scheme scheme, State const& state, Cells const& surface, Poles const& poles,
                        Box const& box, State& tendencies);

/// Potential vorticity of corner (j, i) of an inner face (1/(m s)); reads cells (j - 1, i - 1) to (j, i).
[[nodiscard]] double potential_vorticity(Grid const& grid, State const& state, Index j, Index i);
/// Relative vorticity there (1/s).
[[nodiscard]] double vorticity(Grid const& grid, State const& state, Index j, Index i);
/// Depth there, weighted by area (m).
[[nodiscard]] double corner_depth(Grid const& grid, State const& state, Index j, Index i);
/// Divergence of the wind of a cell (1/s).
[[nodiscard]] double divergence(Grid const& grid, State const& state, Index j, Index i);
/// Kinetic energy per mass of a cell (m2/s2).
[[nodiscard]] double kinetic_energy(Grid const& grid, State const& state, Index j, Index i);

}  // namespace graticule::swe
