// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/pull.hpp>

#include <string>

namespace graticule {

/// Writes a plan as JSON text, which `graticule-bench replay` runs without the program that made it. Collective. Rank 0
/// writes the file, under a temporary name next to `path` that is then renamed.
///
/// Contains, for each rank, the owned box, the source box of each kind, its targets with the pieces of their needed
/// boxes, and the number of transfers and cells; then the path to each peer, and the fields of this plan's last call,
/// if there was one. No field data.
/// Example: `{"format": "graticule-plan", "version": 1, "fingerprint": "9f3c...", "extents": [8], "ranks": [...],
/// ...}`.
///
/// With the environment variable `GRATICULE_DUMP=FOLDER` each new plan writes such a file to the folder,
/// `plan-FINGERPRINT.json`, to which its first call is added. An existing file of the same plan is not changed; a
/// different plan with the same fingerprint (halos whose widths differ by rank) is written to
/// `plan-FINGERPRINT-2.json`, and so on.
/// With more than 512 ranks none is written, and rank 0 says so once.
/// @throws `OutputError` on all ranks when the file cannot be written, `Unsupported` with more than 512 ranks
void dump_plan(PullPlan const& plan, std::string const& path);

}  // namespace graticule
