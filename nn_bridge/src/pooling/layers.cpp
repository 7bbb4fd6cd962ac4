// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/nn_bridge/pooling/layers.hpp>

#include "call/spatial.hpp"
#include "stencil/resize_taps.hpp"
#include "window_pool.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

namespace graticule::nn {

namespace detail {

namespace {

/// The windows of one axis: output o takes the maximum over `cells[o * num_taps]` and the following, relative to
/// `first_cell`. Shorter windows repeat their last cell.
struct MaxWindows {
  Constant cells;
  Index num_taps = 1;
  Index num_outputs = 0;
  Index first_cell = 0;
  Index extent = 0;  ///< of the whole field
};

struct AdaptiveMaxSetUp {
  NeededInputs inputs;
  std::vector<MaxWindows> axes;  ///< levels (if any), rows, columns
};

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

/// Adaptive maxima of shards.
class AdaptiveMax : public NeedState<AdaptiveMaxSetUp> {
 public:
  /// @param sizes of the whole output along the spatial axes; none: that of the input. @throws `BadOption`
  AdaptiveMax(Domain const& domain, std::string const& layer, std::vector<std::optional<std::int64_t>> sizes);

  /// Collective. @returns maxima, and their flat indices in the whole field
  [[nodiscard]] std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor const& x);

 private:
  [[nodiscard]] std::shared_ptr<AdaptiveMaxSetUp const> make(torch::Tensor const& x, Layout const& layout) const;

  std::vector<std::optional<std::int64_t>> sizes_;
};

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

}  // namespace detail

namespace {

using detail::PoolKind;
using detail::WindowPool;
using detail::WindowPoolDescription;

template <std::size_t D>
std::string name_of(char const* kind) {
  return kind + std::to_string(D) + "d";
}

template <std::size_t D>
std::vector<Index> values(torch::ExpandingArray<D> const& array) {
  return {array->begin(), array->end()};
}

template <class Options>
WindowPoolDescription described(std::string layer, Options const& options) {
  WindowPoolDescription d;
  d.layer = std::move(layer);
  auto& w = d.windows;
  w.kernel = values(options.pool.kernel_size());
  w.stride = values(options.pool.stride());
  w.padding.assign(w.kernel.size(), 0);
  w.dilation.assign(w.kernel.size(), 1);
  w.ceil_mode = options.pool.ceil_mode();
  d.by_domain = options.padding == Padding::by_domain;
  d.odd_channels = options.odd_channels;
  return d;
}

template <std::size_t D>
std::shared_ptr<WindowPool> make_core(PoolOptions<torch::nn::MaxPoolOptions<D>> const& options, Domain const& domain) {
  auto d = described(name_of<D>("MaxPool"), options);
  d.windows.padding = values(options.pool.padding());
  d.windows.dilation = values(options.pool.dilation());
  return std::make_shared<WindowPool>(domain, std::move(d));
}

template <std::size_t D>
std::shared_ptr<WindowPool> make_core(PoolOptions<torch::nn::AvgPoolOptions<D>> const& options, Domain const& domain) {
  auto d = described(name_of<D>("AvgPool"), options);
  d.windows.padding = values(options.pool.padding());
  d.needs_whole_kernel = D == 3;
  if (options.pool.divisor_override() == 0) throw Error("BadOption", d.layer + ": divisor_override must not be 0");
  d.rule = {PoolKind::means, options.pool.count_include_pad(), {}};
  // LibTorch's avg_pool1d has no divisor option.
  if (D > 1) d.rule.divisor = options.pool.divisor_override();
  return std::make_shared<WindowPool>(domain, std::move(d));
}

template <std::size_t D>
std::shared_ptr<WindowPool> make_core(PoolOptions<torch::nn::LPPoolOptions<D>> const& options, Domain const& domain) {
  auto d = described(name_of<D>("LPPool"), options);
  d.needs_whole_kernel = D == 3;
  d.rule.kind = PoolKind::means;
  return std::make_shared<WindowPool>(domain, std::move(d));
}

std::vector<std::optional<std::int64_t>> sizes_of(torch::ExpandingArray<1> const& sizes) { return {(*sizes)[0]}; }
template <std::size_t D>
std::vector<std::optional<std::int64_t>> sizes_of(torch::ExpandingArrayWithOptionalElem<D> const& sizes) {
  return {sizes->begin(), sizes->end()};
}

template <class Sizes>
std::shared_ptr<detail::AdaptiveMax> make_core(torch::nn::AdaptiveMaxPoolOptions<Sizes> const& options,
                                               Domain const& domain) {
  auto sizes = sizes_of(options.output_size());
  auto layer = "AdaptiveMaxPool" + std::to_string(sizes.size()) + "d";
  return std::make_shared<detail::AdaptiveMax>(domain, std::move(layer), std::move(sizes));
}

}  // namespace

namespace detail {

template <class Derived, class Options, class Core>
PoolModule<Derived, Options, Core>::PoolModule(Options options, Domain domain)
    : StatefulModule<Derived, Core>(std::move(domain), [options](Domain const& of) { return make_core(options, of); }),
      options_(std::move(options)) {}

/// The area mode of `Resize`.
class AreaResize : public LifeCycle {
 public:
  AreaResize(std::vector<std::int64_t> const& sizes, Domain const& domain)
      : resize(torch::nn::functional::InterpolateFuncOptions().size(sizes).mode(torch::kArea), domain) {}
  ResizeImpl resize;

 protected:
  void tear_down() override { resize.reset_structure(); }
};

}  // namespace detail

template <std::size_t D>
torch::Tensor MaxPoolImpl<D>::forward(torch::Tensor const& x) {
  return this->state().forward(x);
}

template <std::size_t D>
std::tuple<torch::Tensor, torch::Tensor> MaxPoolImpl<D>::forward_with_indices(torch::Tensor const& x) {
  auto const& d = this->state().description();
  if (d.by_domain) throw Error("BadBoundary", d.layer + ": maxima beyond an edge have no index in the field");
  return this->state().forward_with_indices(x);
}

template <std::size_t D>
torch::Tensor AvgPoolImpl<D>::forward(torch::Tensor const& x) {
  return this->state().forward(x);
}

template <std::size_t D>
torch::Tensor LPPoolImpl<D>::forward(torch::Tensor const& x) {
  auto const& o = this->options_.pool;
  double num_cells = 1;
  for (auto const cells : *o.kernel_size()) num_cells *= double(cells);
  auto const y = this->state().forward(x.defined() ? x.pow(o.norm_type()) : x);
  return (torch::sign(y) * torch::relu(torch::abs(y))).mul(num_cells).pow(1. / o.norm_type());
}

template <std::size_t D>
AdaptiveAvgPoolImpl<D>::AdaptiveAvgPoolImpl(torch::nn::AdaptiveAvgPoolOptions<detail::AdaptiveSizes<D>> const& options,
                                            Domain domain)
    : detail::StatefulModule<AdaptiveAvgPoolImpl<D>, detail::AreaResize>(
          std::move(domain), [given = sizes_of(options.output_size())](Domain const& of) {
            std::vector<std::int64_t> sizes;
            for (auto const& size : given) sizes.push_back(size.value_or(ResizeOptions::same));
            return std::make_shared<detail::AreaResize>(sizes, of);
          }) {}

template <std::size_t D>
torch::Tensor AdaptiveAvgPoolImpl<D>::forward(torch::Tensor const& x) {
  bool const bare = x.defined() && x.dim() == std::int64_t(D) + 1;
  auto const y = this->state().resize.forward(bare ? x.unsqueeze(0) : x);
  return bare ? y.squeeze(0) : y;
}

template <std::size_t D>
torch::Tensor AdaptiveMaxPoolImpl<D>::forward(torch::Tensor const& x) {
  return std::get<0>(this->state().forward(x));
}

template <std::size_t D>
std::tuple<torch::Tensor, torch::Tensor> AdaptiveMaxPoolImpl<D>::forward_with_indices(torch::Tensor const& x) {
  return this->state().forward(x);
}

#define GRATICULE_INSTANTIATE_POOLING(D)                                                                               \
  template class detail::PoolModule<MaxPoolImpl<D>, PoolOptions<torch::nn::MaxPoolOptions<D>>, WindowPool>;            \
  template class detail::PoolModule<AvgPoolImpl<D>, PoolOptions<torch::nn::AvgPoolOptions<D>>, WindowPool>;            \
  template class detail::PoolModule<LPPoolImpl<D>, PoolOptions<torch::nn::LPPoolOptions<D>>, WindowPool>;              \
  template class detail::PoolModule<AdaptiveMaxPoolImpl<D>,                                                            \
                                    torch::nn::AdaptiveMaxPoolOptions<detail::AdaptiveSizes<D>>, detail::AdaptiveMax>; \
  template class MaxPoolImpl<D>;                                                                                       \
  template class AvgPoolImpl<D>;                                                                                       \
  template class LPPoolImpl<D>;                                                                                        \
  template class AdaptiveAvgPoolImpl<D>;                                                                               \
  template class AdaptiveMaxPoolImpl<D>;
GRATICULE_INSTANTIATE_POOLING(1)
GRATICULE_INSTANTIATE_POOLING(2)
GRATICULE_INSTANTIATE_POOLING(3)

}  // namespace graticule::nn
