// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <optional>
#include <string_view>

namespace graticule::program {

/// What an operator does to the cells of a field, which decides how it runs on shards.
enum class OperatorClass {
  local,        ///< each cell by itself: arithmetic, activations, conversions
  view,         ///< the same cells under other axes
  stencil,      ///< cells near by, or moved: convolutions, pooling, resizing, padding, rolls, slices, concatenations
  statistic,    ///< over whole axes: means, norms, softmax
  contraction,  ///< products and sums over an axis: linear layers, einsum, attention
  spectral,     ///< Fourier transforms
  table,        ///< cells by tables of indices
  factory,      ///< new tensors from sizes alone
  number,       ///< arithmetic with sizes
  check,        ///< nothing at run time
  subgraph,     ///< runs a graph in another mode
};

/// "local", "view", "stencil", ...
[[nodiscard]] std::string_view name(OperatorClass kind);

/// Class of an operator by the target of its node ("aten.relu_.default"), for all overloads and for the form in place
/// alike. Nothing for an operator that programs may not contain.
[[nodiscard]] std::optional<OperatorClass> operator_class(std::string_view target);

namespace detail {

/// "roll" of "aten.roll.default", "add" of "aten.add_.Tensor", "permute" of "aten.permute_copy.default"; the target
/// itself where it has no such form.
[[nodiscard]] std::string_view operator_name(std::string_view target);

/// Checks that this library runs all operators of the program, also in its subgraphs.
/// @throws Error `RefusedProgram` with operator, module path, source line, reason, and what would help
void check_operators(ExportedGraph const& program);

}  // namespace detail

}  // namespace graticule::program
