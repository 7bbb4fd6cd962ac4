// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "run/conversion.hpp"
#include "run/frame.hpp"

#include <memory>

namespace graticule::program::detail {

/// A node that runs a graph under automatic casts, or with or without the recording of gradients.
/// @throws Error `BrokenFile` for arguments of another form
[[nodiscard]] std::unique_ptr<Step> make_subgraph_step(Node const& node, Conversion const& conversion);

}  // namespace graticule::program::detail
