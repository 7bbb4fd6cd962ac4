// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/repartition/detail/pull.hpp>

#include <string>

namespace graticule {

/// The text that `dump_plan` writes. Collective.
/// @return the text on rank 0, nothing on the others. Cost: one message from each rank; rank 0 holds the whole text
/// @throws `Unsupported` with more than 512 ranks
[[nodiscard]] std::string plan_text(PullPlan const& plan);

}  // namespace graticule
