// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/graph.hpp>
#include <graticule/program/layout/digits.hpp>
#include <graticule/program/sizes.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graticule::program {

/// How the operator runs on cut tensors.
enum class RunMode : std::int8_t {
  whole,      ///< the axis cannot be cut
  same,       ///< the same cut of an axis of the tensors
  table,      ///< the rows that the pull table names; the operator does nothing else along this axis
  window,     ///< an interval of rows per row of the result; the operator runs on them without padding
  statistic,  ///< the same cut, and sums over ranks
};

/// Nothing: every rank holds the whole value.
using Placement = std::optional<Cut>;

/// What a node needs of one tensor, and what a rank receives for it.
struct Transfer {
  ValueId value = -1;
  Placement from;  ///< a placement that the value has
  Placement to;    ///< the placement that the node needs, unless `rows` says more
  /// Along this axis rank r needs the rows rows[r] in that order, -1 being the fill value; -1: no such axis.
  std::int64_t axis = -1;
  std::vector<std::vector<std::int64_t>> rows;
  std::vector<std::int64_t> bytes;  ///< received per rank
  std::int64_t messages = 0;        ///< received, the most of a rank
};

/// How one node runs: fetch the transfers, run the operator on what came with the local arguments, sum.
struct NodePlan {
  NodeId node = -1;
  RunMode mode = RunMode::same;
  /// The axis of the result that is cut. With `table`, the operator does nothing along it any more; with `window`, it
  /// runs without padding along it; with `statistic`, its sums over the axis are summed over ranks. Results without
  /// that axis, as the statistics of a norm, are whole on every rank.
  Placement placement;
  std::vector<Transfer> tensors;   ///< one per tensor argument, lists opened
  std::vector<Shape> local_sizes;  ///< per rank the shape of the first result: the size argument of views and factories
  bool sum_over_ranks = false;     ///< each rank has a part of the sum, which all then get
  std::int64_t statistics_bytes = 0;  ///< of a sum over ranks or a statistic
  double operations = 0;              ///< arithmetic of the rank that has most, about
  double touched_bytes = 0;           ///< that it reads and writes, about; 0 for a view
  bool field = false;                 ///< depends on an input of the network
  bool gathered = false;              ///< a value that was cut is needed whole on every rank
  int part = -1;  ///< of the graph, which a backward computes again as a whole (`Node::region`); -1: none
};

/// The shares of a program on ranks.
struct Plan {
  Graph graph;  ///< with subgraphs inlined; nodes and values of the plan are those of this graph
  std::int64_t num_ranks = 1;
  std::vector<NodePlan> nodes;       ///< one per node that results in tensors, in order
  std::vector<ValueId> user_inputs;  ///< the tensors that the network takes, in order
  std::vector<Placement> inputs;     ///< per value, of the graph's inputs
  std::vector<Transfer> outputs;  ///< to the placement that the caller gets, one per tensor among the graph's outputs
  std::vector<Shape> shapes;      ///< per value; empty for a number
  std::vector<std::int64_t> weights_bytes;  ///< per rank: parameters, buffers and constants
  /// Per rank: results of nodes that are no views, as are kept for a backward pass: all but those within parts that
  /// are computed again.
  std::vector<std::int64_t> activation_bytes;
  std::vector<std::int64_t> recomputed_bytes;  ///< per rank: those of the largest part, which are there while it runs
  std::int64_t num_parts = 0;                  ///< that a backward computes again
  std::vector<std::string> kept_parts;         ///< a text for each that it cannot compute again
  std::vector<std::int64_t> received_bytes;    ///< per rank, of one forward pass
  std::vector<std::int64_t> block_bytes;  ///< per rank, of these: for moves from the caller's blocks to bands and back
  std::int64_t messages = 0;              ///< received in a forward pass, sum over nodes of the most of a rank
};

/// Which of the tensors that the network takes are fields, in the order of `user_inputs`; nothing: decided by
/// `is_field`.
using DeclaredFields = std::optional<std::vector<bool>>;

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

/// Weights of the cost of a plan, in bytes received.
struct PlanCosts {
  double message = 1024;  ///< of a message
  double work = 0.25;     ///< of a byte that an operator reads or writes, and of four operations
  double replicated = 4;  ///< extra cost factor of work repeated on every rank
};

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
