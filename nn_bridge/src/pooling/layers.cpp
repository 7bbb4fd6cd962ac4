// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/pooling/layers.hpp>

#include "adaptive_max.hpp"
#include "window_pool.hpp"

#include <array>
#include <string>

namespace graticule::nn {

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
