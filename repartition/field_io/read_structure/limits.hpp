// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "read/structure_process.hpp"

namespace graticule::detail {

/// Closes what came with `exec` or `fork`, apart from the standard streams and `kept` (-1: nothing else).
void close_all_but(int kept);

/// Memory, processor time and time of this process: a signal ends it at the limit, or an allocation fails.
void limit_this_process(StructureLimits const& limits);

}  // namespace graticule::detail
