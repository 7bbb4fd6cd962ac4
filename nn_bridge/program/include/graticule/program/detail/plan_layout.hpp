// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/layout/costs.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::program {

/// The input of the network whose cuts are those of all its fields: the first that is declared as one; without a
/// declaration the first with at least three axes, or with two if none has more.
/// @throws Error `BadArgument`: as many declarations as inputs are wanted, and a field has two axes
[[nodiscard]] std::optional<std::size_t> first_field(ExportedGraph const& program,
                                                     DeclaredFields const& declared = std::nullopt);
/// Which inputs the caller cuts: those declared, or without a declaration those with as many axes as `is_field` says.
/// @throws Error as `first_field`
[[nodiscard]] std::vector<bool> field_inputs(ExportedGraph const& program,
                                             DeclaredFields const& declared = std::nullopt);
/// Whether the caller cuts an input or output of so many axes: at least two, and as many as the first field has, one
/// less or one more. Others are whole on every rank.
[[nodiscard]] bool is_field(std::size_t ndim, std::size_t first_ndim);

/// Where the blocks of a caller who cuts rows and columns begin and end, in row-major order of ranks.
struct BlockCuts {
  std::vector<std::int64_t> rows;     ///< bounds, one more than there are rows of blocks
  std::vector<std::int64_t> columns;  ///< bounds
};

/// Where a result goes: to a placement, or, without one, where the cheapest plan leaves it.
using Wanted = std::optional<Placement>;

/// The placements of what a program takes and returns, for a caller whose tensors are no fields.
struct Ends {
  std::vector<Placement> inputs;  ///< of each tensor that the program takes
  std::vector<Wanted> outputs;    ///< of each result for the user; fewer than there are: the others anywhere
};

/// On how many ranks, how the caller cuts its fields, and what may be gathered.
struct PlanOptions {
  std::int64_t num_ranks = 2;
  std::int64_t field_axis = -2;      ///< axis of the network's inputs that the caller cuts, latitude; from the end
  std::vector<std::int64_t> bounds;  ///< of the caller's cut; empty: balanced
  std::optional<BlockCuts> blocks = std::nullopt;  ///< fields come and go in these, and are moved to bands and back
  std::int64_t largest_gather = std::int64_t{4} << 30U;  ///< bytes of a value that every rank may hold whole
  std::size_t beam = 16;                                 ///< plans that are followed at a time
  PlanCosts costs = {};
  DeclaredFields fields = std::nullopt;     ///< inputs that the caller cuts
  std::optional<Ends> ends = std::nullopt;  ///< in place of `field_axis`, `bounds`, `blocks` and `fields`
};

/// Chooses a placement for every value of the program.
///
/// Goes along the nodes and keeps the `beam` cheapest plans that differ in the placements of the values still needed,
/// which is dynamic programming where there are no more. The cost of a plan is the sum over nodes of the bytes that the
/// busiest rank receives, of 1 KiB per message, and of a quarter of the bytes that it reads and writes, with operations
/// counted four to the byte (`PlanCosts`). A value moves where a node needs it in another placement, and stays
/// available in the old one; moves along the way are one exchange. Ranks are virtual: no MPI.
/// @throws Error `RefusedProgram` with operator, module path, source line and advice; `BadCuts` for bounds that do not
/// fit. Cost: linear in the nodes, the beam and the ranks.
[[nodiscard]] Plan plan_layout(ExportedGraph const& program, Sizes const& sizes, PlanOptions const& options);

}  // namespace graticule::program
