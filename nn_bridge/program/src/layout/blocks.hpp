// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include <vector>

namespace graticule::program::detail {

/// Adds what the caller's blocks cost to a plan of bands: fields that come in blocks are moved to bands of rows, and
/// the outputs back. Fields on another grid than the first have balanced blocks.
/// @pre blocks of as many ranks as the plan
void count_blocks(Plan& plan, BlockCuts const& blocks);

}  // namespace graticule::program::detail
