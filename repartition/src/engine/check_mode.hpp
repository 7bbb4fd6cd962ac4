// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/detail/patience.hpp>

#include <cstdint>
#include <string>

namespace graticule::detail {

/// Throws `CallDisagreement` on all ranks unless `hash` is the same on all; `StalledExchange`, naming the ranks that are
/// missing, when some do not come within the time for stalls. Collective. Cost: a message to and from rank 0.
void compare_calls(Comm const& comm, int tag, std::uint64_t hash, std::string const& described);

}  // namespace graticule::detail
