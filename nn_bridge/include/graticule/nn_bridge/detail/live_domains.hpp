// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <vector>

namespace graticule::nn::detail {

/// The domains of this process that are still in use, in order of construction.
[[nodiscard]] std::vector<Domain> live_domains();

}  // namespace graticule::nn::detail
