// SPDX-License-Identifier: BSD-3-Clause
#include "shard/local_builder.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace graticule::program::detail {

namespace {

double real_of(Node const& node, std::string_view argument, double otherwise) {
  Argument const* const given = node.input(argument);
  auto const* const real = given == nullptr ? nullptr : std::get_if<double>(given);
  return real == nullptr ? otherwise : *real;
}

int tensor_place(NodeShapes const& shapes, std::string_view argument) {
  auto const place = shapes.tensor(argument);
  return place ? static_cast<int>(*place) : -1;
}

std::int64_t product(Shape const& shape, std::size_t first) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end(), std::int64_t{1},
                         std::multiplies<>());
}

}  // namespace

NormTask norm_task(PlannedNode const& node, LocalBuilder const& builder) {
  Shape const& x = builder.shape(node.tensors.at(0));
  std::string_view const name = node.name();
  NormTask task;
  task.eps = real_of(node.node, "eps", 1e-5);
  task.momentum = real_of(node.node, "momentum", 0.1);
  task.weight = tensor_place(node.shapes, "weight");
  task.bias = tensor_place(node.shapes, "bias");
  if (name == "layer_norm") {
    std::size_t const first = x.size() - node.shapes.integers("normalized_shape", 1, 1).size();
    task.cells = product(x, first);
    task.groups = product(x, 0) == 0 ? product(Shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(first)), 0)
                                     : product(x, 0) / task.cells;
    task.channels = task.groups;
    task.weighted_cells = true;
    return task;
  }
  task.cells = product(x, 2);
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
