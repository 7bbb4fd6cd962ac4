// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/cut_convolution.hpp>

#include "conv_step.hpp"

#include <algorithm>
#include <utility>

namespace graticule::nn::detail {

namespace {

Cuts cuts_of(std::vector<Index> const& bounds) {
  std::vector<Index> sizes;
  for (std::size_t r = 0; r + 1 < bounds.size(); ++r) sizes.push_back(bounds[r + 1] - bounds[r]);
  return Cuts(sizes);
}

ConvAxis axis_of(CutConvolution const& c) {
  auto const i = c.kernel.size() - 2 + std::size_t(c.axis);
  return {c.input_bounds.back(), c.kernel[i], c.stride[i], c.dilation[i], c.beyond.lower, c.beyond.upper};
}

/// Of the cut axis.
ConvAxisShard shard_of(CutConvolution const& c, std::size_t rank) {
  return {
      axis_of(c), {c.input_bounds[rank], c.input_bounds[rank + 1]}, {c.output_bounds[rank], c.output_bounds[rank + 1]}};
}

std::size_t num_ranks(CutConvolution const& c) { return c.input_bounds.size() - 1; }

/// Inputs beyond an edge are nobody's where they are zeros.
bool reads_others(CutConvolution const& c, ConvAxisShard const& shard) {
  auto needed = shard.needed;
  if (c.edge == Edge::constant) needed = {std::max<Index>(needed.lo, 0), std::min(needed.hi, c.input_bounds.back())};
  return needed.size() > 0 && (needed.lo < shard.own.lo || needed.hi > shard.own.hi);
}

ConvDescription describe(CutConvolution const& c) {
  ConvDescription d;
  d.kernel = c.kernel;
  d.stride = c.stride;
  d.dilation = c.dilation;
  d.groups = c.groups;
  auto const cut = std::size_t(c.axis);
  auto const other = c.padding[c.kernel.size() - 1 - cut];
  d.padding[cut] = c.beyond;
  d.padding[1 - cut] = {other, other};
  if (c.kernel.size() == 3) d.levels = LevelPadding{Edge::constant, {c.padding[0], c.padding[0]}};
  d.boundary = Boundary::uniform(2, Edge::constant);
  d.boundary.axes[cut] = {.lower = c.edge, .upper = c.edge};
  d.outputs[cut] = cuts_of(c.output_bounds);
  return d;
}

}  // namespace

bool reads_other_ranks(CutConvolution const& c) {
  for (std::size_t rank = 0; rank < num_ranks(c); ++rank)
    if (reads_others(c, shard_of(c, rank))) return true;
  return false;
}

bool splits_on_all_ranks(CutConvolution const& c) {
  for (std::size_t rank = 0; rank < num_ranks(c); ++rank) {
    auto const shard = shard_of(c, rank);
    if (shard.outputs.size() > 0 && !shard.splits) return false;
  }
  return true;
}

std::shared_ptr<ConvSetUp const> set_up(Comm const& comm, CutConvolution const& c) {
  auto const parts = Index(num_ranks(c));
  std::vector<Cuts> cuts{cuts_of(c.input_bounds), Cuts{c.other_extent}};
  Indices grid{parts, 1};
  if (c.axis == 1) {
    std::swap(cuts[0], cuts[1]);
    grid = Indices{1, parts};
  }
  return std::make_shared<ConvSetUp const>(comm, Layout(ProcessGrid(grid), std::move(cuts)), describe(c));
}

torch::Tensor cut_convolution(std::shared_ptr<ConvSetUp const> const& plans, torch::Tensor const& x,
                              torch::Tensor const& weight, torch::Tensor const& bias) {
  auto const requires_grad = [](torch::Tensor const& tensor) {
    return torch::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
  };
  bool const input_grad = requires_grad(x);
  bool const any = input_grad || requires_grad(weight) || requires_grad(bias);
  return sharded_convolution(plans, resolved(x), weight, bias, anchor(any, x.options()), input_grad);
}

}  // namespace graticule::nn::detail
