// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/graph.hpp>

namespace graticule::program::detail {

/// Checks that this library runs all operators of the program, also in its subgraphs.
/// @throws Error `RefusedProgram` with operator, module path, source line, reason, and what would help
void check_operators(ExportedGraph const& program);

}  // namespace graticule::program::detail
