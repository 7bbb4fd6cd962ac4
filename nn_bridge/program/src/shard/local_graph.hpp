// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/cut_convolution.hpp>
#include <graticule/program/detail/conversion.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/sizes.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace graticule::program::detail {

/// The node's own operator, on this rank's tensors.
struct PlainTask {};

/// Cells from the ranks that have them: a linear map, of which every rank runs its part. Collective.
struct MoveTask {
  Shape shape;        ///< of the whole value
  Cut from;           ///< what this rank has
  std::int64_t axis;  ///< of the rows that ranks need
  /// Per rank, ascending, each once. The result has them along `axis`, and the whole of all other axes.
  std::vector<std::vector<std::int64_t>> rows;
};

/// The sum over the ranks, on all ranks. Collective.
struct SumTask {};

/// Results without cells, connected to the node's tensors so that all ranks have the same graph.
struct EmptyTask {
  std::vector<Shape> shapes;
  std::vector<Dtype> dtypes;
};

/// A normalisation by statistics over all ranks; the node's tensors are the input, weight, bias, and of a batch norm
/// with results for the running statistics also those. Collective.
struct NormTask {
  std::int64_t outer = 1;
  std::int64_t groups = 1;
  std::int64_t inner = 1;
  std::int64_t cells = 1;
  std::int64_t channels = 1;
  double eps = 1e-5;
  double momentum = 0.1;
  bool weighted_cells = false;  ///< weight and bias have the axes of the cells (layer norm), not the channels
  int weight = -1;              ///< places among the node's tensors
  int bias = -1;
  int running_mean = -1;
  int running_var = -1;
};

/// Random numbers of a tensor of the node's shape and type.
enum class Draw {
  mask,     ///< the tensor times 0 with probability p and 1 / (1 - p) else, in training; in evaluation the tensor
  uniform,  ///< in [0, 1)
  normal,   ///< of mean 0 and deviation 1
};

/// Numbers by the place in the whole tensor, alike for every division.
struct DropoutTask {
  double p = 0;
  Shape whole;              ///< of the whole value
  Placement part;           ///< what this rank has of it
  std::uint32_t layer = 0;  ///< number of the node in the plan
  Draw draw = Draw::mask;
};

/// A convolution of this rank's rows, while those of others travel; the node's tensors are the input, the weight and,
/// if there is one, the bias. Collective.
struct ConvTask {
  nn::detail::CutConvolution convolution;
};

using Task = std::variant<PlainTask, MoveTask, SumTask, EmptyTask, NormTask, DropoutTask, ConvTask>;

/// What one rank runs of a program: nodes on this rank's tensors, and the calls in which ranks exchange cells.
///
/// All ranks have the same collective tasks in the same order; nodes between them may differ.
struct LocalGraph {
  Graph graph;              ///< inputs: those of the plan's graph, then `constants`
  std::vector<Task> tasks;  ///< one per node
  std::vector<int> parts;   ///< one per node: `NodePlan::part`
  std::vector<torch::Tensor> constants;
  std::vector<std::vector<std::int64_t>> shapes;  ///< per value
  bool draws = false;                             ///< random numbers in training, on some rank
  bool draws_always = false;                      ///< in evaluation as well
};

/// Convolutions that compute on this rank's rows while those of others travel (`ConvTask`). The same on all ranks.
struct Overlaps {
  std::map<NodeId, nn::detail::CutConvolution> convolutions;
  /// Nodes that pad a tensor for one of them: along the cut axis, the convolution does it.
  std::set<NodeId> paddings;
};

/// Those that fetch rows for themselves alone, of enough rows (`PlanCosts::overlap`).
[[nodiscard]] Overlaps find_overlaps(Plan const& plan, Sizes const& sizes);

/// Turns the plan into one rank's graph. Local.
/// @throws Error `RefusedProgram` for nodes that run on one rank only (in place, on values that others read), on all
///   ranks alike
[[nodiscard]] LocalGraph local_graph(Plan const& plan, Sizes const& sizes, Conversion const& conversion, int rank);

}  // namespace graticule::program::detail
