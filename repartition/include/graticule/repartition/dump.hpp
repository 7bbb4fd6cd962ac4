// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/pull.hpp>

#include <string>

namespace graticule {

/// A plan in words: JSON that `graticule-bench replay` runs again without the program that made it. Collective.
///
/// Holds, rank by rank, the owned box, the source box of each kind, its targets with the pieces that their needed boxes
/// were cut into, and how many transfers with how many cells they make; then the path to each peer, and the fields of
/// this plan's last call, if there was one. No field data.
/// Example: `{"format": "graticule-plan", "version": 1, "fingerprint": "9f3c...", "extents": [8], "ranks": [...], ...}`.
/// @return the text on rank 0, nothing on the others. Cost: one message from each rank; rank 0 holds the whole text
[[nodiscard]] std::string plan_text(PullPlan const& plan);

/// Writes `plan_text` to a file: a temporary name beside `path` on rank 0, then renamed. Collective.
///
/// The environment variable `GRATICULE_DUMP` names a folder where each plan leaves such a file when it is made,
/// `plan-FINGERPRINT.json`, to which its first call is added. A file of the same plan is left alone; another plan of
/// the same fingerprint (halos whose widths are each rank's own) goes to `plan-FINGERPRINT-2.json`, and so on.
/// @throws `PlanDump` on all ranks when the file cannot be written
void dump_plan(PullPlan const& plan, std::string const& path);

}  // namespace graticule
