// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <cstdint>
#include <string>

namespace graticule::detail {

/// `GRATICULE_CHECK=comm` (or `all`): every call is compared among ranks, and a stalled one ends with an error.
[[nodiscard]] bool checks_calls();
/// `GRATICULE_CHECK=cells` (or `all`): cells are poisoned before a call, and each cell of a plan is verified.
[[nodiscard]] bool checks_cells();
/// Seconds after which a wait is reported, from `GRATICULE_STALL_SECONDS`; 0: never.
[[nodiscard]] double stall_seconds();
/// Seconds that a plan which is destroyed gives its peers to read or to send what they will: 10, or the time for stalls.
[[nodiscard]] double seconds_to_end();

/// Throws `CallDisagreement` on all ranks unless `hash` is the same on all; `StalledExchange`, naming the ranks that are
/// missing, when some do not come within the time for stalls. Collective. Cost: a message to and from rank 0.
void compare_calls(Comm const& comm, int tag, std::uint64_t hash, std::string const& described);

}  // namespace graticule::detail
