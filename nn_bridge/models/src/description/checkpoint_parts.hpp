// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/description.hpp>

#include <cstddef>
#include <vector>

namespace graticule::models {

/// Bytes of the exported network of a checkpoint, a `.pt2` file. Collective. @pre `ModelKind::program`
[[nodiscard]] std::vector<std::byte> load_program(Checkpoint const& checkpoint);
/// A static field, by its place among `Description::statics`, on this rank's box: [row][column]. Collective.
[[nodiscard]] std::vector<double> load_static(Checkpoint const& checkpoint, std::size_t place, Box const& box);

}  // namespace graticule::models
