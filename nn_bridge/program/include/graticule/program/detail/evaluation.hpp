// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <set>
#include <string>

namespace graticule::program::detail {

/// The network in evaluation mode, as `model.eval()` before the export would have made it: batch and instance norms use
/// their running statistics, which stay as they are. Dropout is not part of it: it depends on the mode of a run.
/// @throws Error `RefusedProgram` where running statistics are computed by other operators than those of a norm
[[nodiscard]] ExportedGraph evaluated(ExportedGraph const& program);

/// Names of the buffers that a run overwrites: running statistics, counters.
[[nodiscard]] std::set<std::string> written_buffers(ExportedGraph const& program);

}  // namespace graticule::program::detail
