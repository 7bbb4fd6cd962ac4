// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <string_view>

namespace graticule::program::detail {

/// "roll" of "aten.roll.default", "add" of "aten.add_.Tensor", "permute" of "aten.permute_copy.default"; the target
/// itself where it has no such form.
[[nodiscard]] std::string_view operator_name(std::string_view target);

/// Checks that this library runs all operators of the program, also in its subgraphs.
/// @throws Error `RefusedProgram` with operator, module path, source line, reason, and what would help
void check_operators(ExportedGraph const& program);

}  // namespace graticule::program::detail
