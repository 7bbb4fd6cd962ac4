// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/shape.hpp>
#include <graticule/program/layout/digits.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace graticule::info {

/// What the busiest rank sends in one forward run.
struct PlanTraffic {
  double move_bytes = 0;  ///< to bring tensors under another cut
  double halo_bytes = 0;  ///< rows of neighbors, and rows that a pull table names
  double sum_bytes = 0;   ///< sums over ranks
  std::int64_t num_messages = 0;
  std::int64_t num_sums = 0;  ///< of these, sums over all ranks

  [[nodiscard]] double bytes() const { return move_bytes + halo_bytes + sum_bytes; }
  PlanTraffic& operator+=(PlanTraffic const& other);
};

/// What an operator does on the rank that has most.
struct Work {
  double operations = 0;
  double bytes = 0;    ///< read and written
  double scores = 0;   ///< of attention: queries times keys
  int num_passes = 3;  ///< of a step: forward, and twice as much backward; 1 without an input among its arguments
};

/// One node of a network on its ranks.
struct PlanNode {
  std::string module;          ///< "blocks.0.attn"
  std::string operator_class;  ///< "local", "view", ...
  std::string placement;       ///< what is cut: "latitude", "heads", "whole"; empty where no field is computed
  program::Shape shape;        ///< of the result, over all ranks
  std::vector<program::Cut> cuts;
  PlanTraffic traffic;      ///< of the node and of the moves in front of it
  Work work;                ///< none for views
  double memory_bytes = 0;  ///< activations that the fullest rank holds after it
};

/// Consecutive nodes whose results are cut alike.
struct PlanStage {
  std::string module;  ///< the path that all of them have in common
  std::string placement;
  program::Shape shape;  ///< of the largest result
  std::vector<program::Cut> cuts;
  std::int64_t num_nodes = 0;
  std::map<std::string, std::int64_t> num_operators;  ///< by class
  PlanTraffic traffic;
  std::vector<Work> works;  ///< of its operators but views
  double memory_bytes = 0;  ///< the most of all nodes
};

/// A value of which each rank has a part, and that a node needs whole on every rank.
struct PlanGather {
  std::string value;  ///< its name in the graph
  program::Shape shape;
  std::string where;  ///< operator, module path and source line of the node
  double bytes = 0;   ///< that the busiest rank receives
};

/// A node that cannot run on several ranks.
struct PlanRefusal {
  std::string where;  ///< operator, module path and source line
  std::string reason;
  std::string advice;
};

/// How a network runs on its ranks, for a reader: stages in the order of execution, or why it does not run.
struct ProgramPlan {
  std::string network;
  std::int64_t num_ranks = 1;
  std::vector<std::pair<std::string, std::string>> facts;  ///< name and value: parameters, bytes moved, ...
  std::vector<PlanStage> stages;
  std::vector<PlanGather> gathers;
  std::vector<PlanRefusal> refusals;
};

/// Stages of nodes in the order of execution.
///
/// A new stage begins where the placement or the bounds of the cuts change; the number of the cut axis may change
/// within a stage, since a permute moves no cell. Nodes without a placement belong to the stage in progress, at the
/// front to the next. Example: rows, rows, heads, (none), rows become three stages of 2, 2 and 1 nodes.
[[nodiscard]] std::vector<PlanStage> stages_of(std::vector<PlanNode> const& nodes);

/// "1x8x24x48".
[[nodiscard]] std::string shape_text(program::Shape const& shape);

/// Each rank's indices of the cut axis, "6,6,5,0", two cuts as "6,6 x 12,12"; above 8 ranks "5-6"; "all" without a cut.
[[nodiscard]] std::string shares_text(PlanStage const& stage);

/// The plan as lines of text: facts, a table of stages, refusals.
[[nodiscard]] std::string to_text(ProgramPlan const& plan);

/// The plan as SVG: one row per stage, with the cut axis in the ranks' colours, bytes and memory. Axes of many ranks or
/// periods are drawn in part, which a note beneath states.
[[nodiscard]] std::string to_svg(ProgramPlan const& plan);

}  // namespace graticule::info
