// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "solver.hpp"

#include <filesystem>
#include <string>

namespace graticule::swe {

/// Draws the height of the surface and, unless the wind is fixed, the vorticity at up to four times of a series, the
/// first and the last among them, as a PNG file.
///
/// Reads the series, so that a restarted run draws what an uninterrupted one draws. Collective; rank 0 holds the fields
/// that are drawn. @param title of the picture @throws `OutputError`
void draw_series(Solver& solver, std::filesystem::path const& series, std::string const& title,
                 std::filesystem::path const& picture);

/// The records of `num_records` that are drawn: up to four, evenly spaced. Example: of 16, 0, 5, 10 and 15.
[[nodiscard]] std::vector<Index> pictured_records(Index num_records);

}  // namespace graticule::swe
