// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/cuts.hpp>

namespace graticule {

/// Parts of an axis that end at multiples of `chunk` and minimise the largest part; with more parts than chunks the
/// last ones are empty.
///
/// HDF5 reads and writes whole chunks. Where a cut divides a deflated chunk, every rank with a part of it reads and
/// inflates the whole chunk; in a collective write, one of them gathers and deflates the parts while the others wait.
/// Parts of 10 rows in chunks of 64 inflate each chunk six to seven times.
/// Example: 241 rows in chunks of 61 for 3 ranks are [0, 61), [61, 122), [122, 241).
/// @throws `BadCuts` for `extent < 0`, `chunk < 1` or `num_parts < 1`
[[nodiscard]] Cuts chunk_aligned_cuts(Index extent, Index chunk, int num_parts);

}  // namespace graticule
