// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>
#include <graticule/program/detail/shape.hpp>
#include <graticule/program/layout/costs.hpp>
#include <graticule/program/layout/digits.hpp>

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
  PlanCosts costs;                   ///< by which it was chosen
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

/// Which of the tensors that the network takes are fields, in order; nothing: decided by their number of axes.
using DeclaredFields = std::optional<std::vector<bool>>;

}  // namespace graticule::program
