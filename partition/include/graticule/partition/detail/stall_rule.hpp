// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/stall.hpp>

namespace graticule {

/// The rule of this process: that of the last `set_stall_rule`, or of the environment; within a `detail::StallScope`
/// its rule.
[[nodiscard]] StallRule stall_rule();

}  // namespace graticule
