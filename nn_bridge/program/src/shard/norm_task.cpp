// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "shard/local_builder.hpp"

#include <algorithm>
#include <cstddef>

namespace graticule::program::detail {

namespace {

int tensor_place(NodeShapes const& shapes, std::string_view argument) {
  auto const place = shapes.tensor(argument);
  return place ? static_cast<int>(*place) : -1;
}

// Cells along the axes behind the first ones.
std::int64_t cells_behind(Shape const& shape, std::size_t first) {
  return num_elements(Shape(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end()));
}

}  // namespace

NormTask norm_task(PlannedNode const& node, LocalBuilder const& builder) {
  Shape const& x = builder.shape(node.tensors.at(0));
  std::string_view const name = node.name();
  NormTask task;
  task.eps = real_input(node.node, "eps", 1e-5);
  task.momentum = real_input(node.node, "momentum", 0.1);
  task.weight = tensor_place(node.shapes, "weight");
  task.bias = tensor_place(node.shapes, "bias");
  if (name == "layer_norm") {
    std::size_t const first = x.size() - node.shapes.integers("normalized_shape", 1, 1).size();
    task.cells = cells_behind(x, first);
    task.groups = num_elements(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(first)));
    task.channels = task.groups;
    task.weighted_cells = true;
    return task;
  }
  task.cells = cells_behind(x, 2);
  task.channels = x.at(1);
  if (name.find("batch_norm") != std::string_view::npos) {
    task.outer = x[0];
    task.groups = x[1];
    task.running_mean = tensor_place(node.shapes, "running_mean");
    task.running_var = tensor_place(node.shapes, "running_var");
  } else {
    std::int64_t const groups = name == "group_norm" ? node.shapes.integer("num_groups", x[1]) : x[1];
    task.groups = x[0] * groups;
    task.inner = x[1] / std::max<std::int64_t>(1, groups);
  }
  return task;
}

}  // namespace graticule::program::detail
