// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/cuts.hpp>

namespace graticule {

/// Parts of an axis that end at multiples of `chunk`, the largest as small as can be; with more parts than chunks the
/// last ones are empty.
///
/// HDF5 reads and writes whole chunks. Where a cut goes through a deflated chunk, every rank that has a part of it reads
/// and inflates all of it; in a collective write, one of them gathers the parts and deflates them, and the others wait.
/// Rows of 10 in chunks of 64 are inflated six to seven times over.
/// Example: 241 rows in chunks of 61 for 3 ranks are [0, 61), [61, 122), [122, 241).
/// @throws `BadCuts` for `extent < 0`, `chunk < 1` or `num_parts < 1`
[[nodiscard]] Cuts chunk_aligned_cuts(Index extent, Index chunk, int num_parts);

}  // namespace graticule
