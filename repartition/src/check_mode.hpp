// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::detail {

/// `GRATICULE_CHECK=comm` (or `all`): every call is compared among ranks, and a stalled one ends with an error.
[[nodiscard]] bool checks_calls();
/// `GRATICULE_CHECK=cells` (or `all`): cells are poisoned before a call, and each cell of a plan is verified.
[[nodiscard]] bool checks_cells();
/// Seconds after which a wait is reported, from `GRATICULE_STALL_SECONDS`; 0: never.
[[nodiscard]] double stall_seconds();

}  // namespace graticule::detail
