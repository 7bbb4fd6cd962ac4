// SPDX-License-Identifier: BSD-3-Clause
#include "adaptive_max.hpp"

#include "call/spatial.hpp"
#include "stencil/resize_taps.hpp"

#include <algorithm>

namespace graticule::nn::detail {

namespace {

/// @param inputs the cells that the input tensor holds
MaxWindows windows_of(Taps const& taps, Range inputs, Index extent) {
  MaxWindows w{{}, 1, taps.num_outputs(), inputs.lo, extent};
  std::vector<std::int64_t> cells;
  for (std::size_t o = 0; o + 1 < taps.first.size(); ++o)
    w.num_taps = std::max(w.num_taps, taps.first[o + 1] - taps.first[o]);
  for (std::size_t o = 0; o + 1 < taps.first.size(); ++o)
    for (Index t = 0; t < w.num_taps; ++t)
      cells.push_back(taps.cells[std::size_t(std::min(taps.first[o] + t, taps.first[o + 1] - 1))] - inputs.lo);
  w.cells = Constant(torch::tensor(cells, torch::kLong));
  return w;
}

/// All cells of all windows: [batch, channels, outputs of each axis..., cells of a window].
torch::Tensor unfolded(std::vector<MaxWindows> const& axes, torch::Tensor const& x) {
  auto y = x;
  std::vector<std::int64_t> split{x.size(0), x.size(1)};
  std::vector<std::int64_t> order{0, 1};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    y = y.index_select(std::int64_t(i) + 2, axes[i].cells.on(x.device()));
    split.insert(split.end(), {axes[i].num_outputs, axes[i].num_taps});
    order.push_back(std::int64_t(2 * i + 2));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) order.push_back(std::int64_t(2 * i + 3));
  return y.reshape(split).permute(order).flatten(std::int64_t(axes.size()) + 2);
}

/// Flat indices in the whole field of the taps that were taken.
torch::Tensor flat_indices(std::vector<MaxWindows> const& axes, torch::Tensor const& taken) {
  auto rest = taken;
  auto result = torch::zeros_like(taken);
  std::int64_t stride = 1;
  for (auto i = std::int64_t(axes.size()) - 1; i >= 0; --i) {
    auto const& w = axes[std::size_t(i)];
    auto const tap = rest.remainder(w.num_taps);
    rest = rest.floor_divide(w.num_taps);
    std::vector<std::int64_t> shape(std::size_t(taken.dim()), 1);
    shape[std::size_t(i) + 2] = w.num_outputs;
    auto const output = torch::arange(w.num_outputs, taken.options()).view(shape);
    auto const cells = w.cells.on(taken.device()) + w.first_cell;
    result = result + stride * cells.index({output * w.num_taps + tap});
    stride *= w.extent;
  }
  return result;
}

}  // namespace

AdaptiveMax::AdaptiveMax(Domain const& domain, std::string const& layer, std::vector<std::optional<std::int64_t>> sizes)
    : NeedState(domain, layer), sizes_(std::move(sizes)) {
  for (auto const& size : sizes_)
    if (size && *size < 1)
      throw Error("BadOption", layer + " needs outputs of at least 1 cell, got " + std::to_string(*size));
}

std::shared_ptr<AdaptiveMaxSetUp const> AdaptiveMax::make(torch::Tensor const& x, Layout const& layout) const {
  auto const num_axes = sizes_.size();
  std::vector<MaxWindows> axes;
  NeedDescription need;
  Hash hash;
  for (int i = num_axes == 3 ? -1 : 0; i < 2; ++i) {
    Index const extent = i < 0 ? x.size(-3) : layout.extent(i);
    if (extent < 1)
      throw Error("KernelTooLarge", layer() + " needs axes of at least 1 cell, got " + std::to_string(extent));
    auto const place = std::size_t(num_axes == 3 ? i + 1 : i);
    auto const size = place < num_axes ? sizes_[place] : std::nullopt;
    ResizeAxis const axis{.kind = ResizeKind::area, .num_inputs = extent, .num_outputs = size.value_or(extent)};
    hash.add(axis.num_outputs);
    Range outputs{0, axis.num_outputs};
    if (i >= 0) outputs = own_range(domain().comm(), layout, i, axis.output_cuts(*layout.cuts(i)));
    auto const taps = axis.taps(outputs, x, i - 2);
    auto const inputs = i < 0 ? Range{0, extent} : taps.span();
    if (i >= 0) need.needed[std::size_t(i)] = inputs;
    axes.push_back(windows_of(taps, inputs, extent));
  }
  need.boundary = Boundary::uniform(2, Edge::replicate);
  need.fingerprint = hash.value();
  return std::make_shared<AdaptiveMaxSetUp const>(
      AdaptiveMaxSetUp{NeededInputs(domain().comm(), layout, need), std::move(axes)});
}

std::tuple<torch::Tensor, torch::Tensor> AdaptiveMax::forward(torch::Tensor const& x) {
  auto const num_axes = sizes_.size();
  auto const check = [&] {
    check_spatial(layer(), num_axes, x, domain(), {});
    if (x.is_complex()) throw Error("UnsupportedTensor", layer() + " of complex numbers, which have no order");
  };
  auto const call = enter(with_columns(x, num_axes), check, [&](Layout const& layout) { return make(x, layout); });
  auto const& s = *call.set_up;
  auto const inputs = fetch(call, batched(x, num_axes));
  torch::Tensor maxima;
  torch::Tensor indices;
  if (s.inputs.box().empty()) {
    std::vector<std::int64_t> sizes{inputs.size(0), inputs.size(1)};
    for (auto const& axis : s.axes) sizes.push_back(axis.num_outputs);
    // The sum of no cells: an edge of the graph.
    maxima = torch::zeros(sizes, inputs.options()) + inputs.sum();
    indices = torch::zeros(sizes, inputs.options().dtype(torch::kLong));
  } else {
    std::tie(maxima, indices) = unfolded(s.axes, inputs).max(-1);
    indices = flat_indices(s.axes, indices);
  }
  return {unbatched(maxima, x, num_axes), unbatched(indices, x, num_axes)};
}

}  // namespace graticule::nn::detail
