// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/conversion.hpp>

#include "run/frame.hpp"

#include <memory>

namespace graticule::program::detail {

/// A node that runs a graph under automatic casts, or with or without the recording of gradients.
/// @throws Error `BrokenFile` for arguments of another form
[[nodiscard]] std::unique_ptr<Step> make_subgraph_step(Node const& node, Conversion const& conversion);

/// The step under the automatic casts of a node.
[[nodiscard]] std::unique_ptr<Step> in_casts(Node::Casts const& casts, Conversion const& conversion,
                                             std::unique_ptr<Step> step);

}  // namespace graticule::program::detail
