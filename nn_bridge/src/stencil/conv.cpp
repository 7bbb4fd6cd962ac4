// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/stencil/conv.hpp>

#include "call/spatial.hpp"
#include "conv_options.hpp"
#include "conv_step.hpp"

namespace graticule::nn {

namespace {

template <std::size_t D>
detail::ConvDescription describe(detail::ConvNdOptions<D> const& options, Boundary const& boundary,
                                 std::vector<std::int64_t> const& odd_channels) {
  detail::ConvDescription d;
  d.kernel = detail::along_axes(options.kernel_size(), 1);
  d.stride = detail::along_axes(options.stride(), 1);
  d.dilation = detail::along_axes(options.dilation(), 1);
  std::vector<Width> padding;
  for (std::size_t a = 0; a < D; ++a) padding.push_back(detail::padding_of(options, a));
  if (D == 1) padding.push_back({0, 0});
  if (D == 3) d.levels = detail::LevelPadding{detail::edge_of(options.padding_mode()), padding[0]};
  d.padding = {padding[padding.size() - 2], padding.back()};
  d.groups = options.groups();
  d.boundary = boundary;
  d.odd_channels = odd_channels;
  return d;
}

/// LibTorch rejects these too; here the check uses global extents.
void check_padding(detail::ConvDescription const& d, Layout const& layout, Padding padding_by) {
  if (padding_by == Padding::by_domain) return;
  for (std::size_t a = 0; a < 2; ++a)
    detail::check_width(d.boundary.axes[a].lower, d.padding[a], layout.extent(int(a)));
}

void check_levels(detail::ConvDescription const& d, Index num_levels) {
  detail::check_width(d.levels->edge, d.levels->padding, num_levels);
  (void)detail::ConvAxis{
      num_levels, d.kernel[0], d.stride[0], d.dilation[0], d.levels->padding.lower, d.levels->padding.upper}
      .num_outputs();
}

/// On rank 0 alone: the serial layer is the same on all ranks.
void warn_of_whole_grid(std::string const& layer, detail::ConvDescription const& d, torch::Tensor const& shard,
                        torch::Tensor const& weight, Layout const& layout) {
  auto sizes = shard.sizes().vec();
  for (std::size_t a = 0; a < 2; ++a) sizes[sizes.size() - 2 + a] = layout.extent(int(a));
  auto const whole = shard.new_empty({1}).expand(sizes);
  detail::warn_of_wrong_serial_layer(layer, whole, weight, d.windows({d.padding[0].lower, d.padding[1].lower}));
}

}  // namespace

template <std::size_t D>
ConvImpl<D>::ConvImpl(ConvOptions<D> const& given, Domain const& domain)
    : CommunicatingModule<ConvImpl<D>, detail::ConvSetUp, torch::nn::ConvNdImpl<D, ConvImpl<D>>>(
          domain, "Conv" + std::to_string(D) + "d", {}, detail::nd_options(given.conv)),
      padding_by_(given.padding),
      odd_channels_(given.odd_channels) {
  detail::check_odd_channels(odd_channels_, given.conv.in_channels());
  detail::check_longitude("Conv1d", D, domain);
}

template <std::size_t D>
void ConvImpl<D>::check(torch::Tensor const& x) const {
  detail::check_convolution("Conv" + std::to_string(D) + "d", D, x, this->options.in_channels(), this->weight,
                            this->domain());
}

template <std::size_t D>
torch::Tensor ConvImpl<D>::forward(torch::Tensor const& x) {
  auto const make = [&](Layout const& layout) {
    auto const mode = detail::edge_of(this->options.padding_mode());
    auto const boundary =
        detail::boundary_of(D, this->domain(), padding_by_ == Padding::by_domain ? std::nullopt : std::optional(mode));
    auto const description = describe(this->options, boundary, odd_channels_);
    check_padding(description, layout, padding_by_);
    if (D == 3) check_levels(description, x.size(-3));
    if (this->domain().comm().rank() == 0)
      warn_of_whole_grid("Conv" + std::to_string(D) + "d", description, detail::batched(x, D),
                         detail::with_columns(this->weight, D), layout);
    return std::make_shared<detail::ConvSetUp const>(this->domain().comm(), layout, description);
  };
  bool const parameter_grad = detail::needs_gradient(this->weight) || detail::needs_gradient(this->bias);
  auto const call = this->enter(
      detail::with_columns(x, D), [&] { check(x); }, make, parameter_grad);
  auto const given = detail::pad_levels(call.set_up->description(), detail::batched(x, D));
  auto const y = detail::sharded_convolution(call.set_up, given, detail::with_columns(this->weight, D), this->bias,
                                             call.anchor, call.input_grad);
  return detail::unbatched(this->record(y), x, D);
}

template class ConvImpl<1>;
template class ConvImpl<2>;
template class ConvImpl<3>;

}  // namespace graticule::nn
