// SPDX-License-Identifier: BSD-3-Clause
// Joints of faces in messages, in the conventions of the caller's language.
#pragma once

#include <graticule/partition/block_grid.hpp>

#include <string>
#include <vector>

namespace graticule::detail {

/// `face 0 above axis 0 meets face 2 below axis 1, counted in opposite directions`
[[nodiscard]] std::string joint_text(FaceJoint const& joint);

/// Of each joint of a grid, once.
[[nodiscard]] std::vector<std::string> joint_texts(BlockGrid const& grid);

}  // namespace graticule::detail
