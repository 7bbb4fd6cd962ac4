// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/conv2d.hpp>
#include <graticule/nn_bridge/tensor_view.hpp>

#include "conv_step.hpp"
#include "layer_state.hpp"

namespace graticule::nn {

namespace {

torch::nn::detail::ConvNdOptions<2> nd_options(torch::nn::Conv2dOptions const& o) {
  return torch::nn::detail::ConvNdOptions<2>(o.in_channels(), o.out_channels(), o.kernel_size())
      .stride(o.stride())
      .padding(o.padding())
      .dilation(o.dilation())
      .transposed(false)
      .output_padding(0)
      .groups(o.groups())
      .bias(o.bias())
      .padding_mode(o.padding_mode());
}

/// LibTorch's padding: explicit, none, or `same`, which adds the odd cell on the upper side.
Width padding_of(torch::nn::detail::ConvNdOptions<2> const& options, std::size_t axis) {
  if (auto const* cells = std::get_if<torch::ExpandingArray<2>>(&options.padding()))
    return {(**cells)[axis], (**cells)[axis]};
  if (std::holds_alternative<torch::enumtype::kValid>(options.padding())) return {0, 0};
  Index const total = (*options.dilation())[axis] * ((*options.kernel_size())[axis] - 1);
  return {total / 2, total - total / 2};
}

Edge edge_of(torch::nn::detail::conv_padding_mode_t const& mode) {
  if (std::holds_alternative<torch::enumtype::kReflect>(mode)) return Edge::reflect;
  if (std::holds_alternative<torch::enumtype::kReplicate>(mode)) return Edge::replicate;
  if (std::holds_alternative<torch::enumtype::kCircular>(mode)) return Edge::periodic;
  return Edge::constant;
}

detail::ConvDescription describe(torch::nn::detail::ConvNdOptions<2> const& options, Padding padding_by,
                                 Domain const& domain, std::vector<std::int64_t> const& odd_channels) {
  detail::ConvDescription d;
  for (std::size_t a = 0; a < 2; ++a) {
    d.kernel[a] = (*options.kernel_size())[a];
    d.stride[a] = (*options.stride())[a];
    d.dilation[a] = (*options.dilation())[a];
    d.padding[a] = padding_of(options, a);
  }
  d.groups = options.groups();
  d.boundary =
      padding_by == Padding::by_domain ? domain.boundary() : Boundary::uniform(2, edge_of(options.padding_mode()));
  d.odd_channels = odd_channels;
  return d;
}

/// LibTorch refuses these too; here they are told by the global extents.
void check_padding(detail::ConvDescription const& d, Layout const& layout, Padding padding_by) {
  if (padding_by == Padding::by_domain) return;
  for (std::size_t a = 0; a < 2; ++a) {
    Index const widest = std::max(d.padding[a].lower, d.padding[a].upper);
    Index const extent = layout.extent(int(a));
    auto const edge = d.boundary.axes[a].lower;
    if ((edge == Edge::reflect && widest >= extent) || (edge == Edge::periodic && widest > extent))
      throw Error("PaddingTooWide", to_string(edge) + " padding of " + std::to_string(widest) +
                                        " cells on an axis of " + std::to_string(extent));
  }
}

}  // namespace

struct Conv2dImpl::State : detail::LayerState<detail::ConvSetUp> {
  explicit State(Domain const& domain) : LayerState(domain, "Conv2d") {}
};

Conv2dImpl::Conv2dImpl(Conv2dOptions const& given, Domain domain)
    : ConvNdImpl(nd_options(given.conv)),
      padding_by_(given.padding),
      odd_channels_(given.odd_channels),
      domain_(std::move(domain)),
      state_(std::make_shared<State>(domain_)) {
  for (auto const channel : odd_channels_)
    if (channel < 0 || channel >= given.conv.in_channels())
      throw Error("OddChannels",
                  "channel " + std::to_string(channel) + " of " + std::to_string(given.conv.in_channels()));
}

void Conv2dImpl::reset() {
  ConvNdImpl::reset();
  // A clone must not share the set-ups of its original. The base class resets before there is a state to renew.
  if (state_) state_ = std::make_shared<State>(domain_);
}

torch::Tensor Conv2dImpl::forward(torch::Tensor const& x) {
  auto const check = [&] {
    (void)tensor_view(x);
    if (x.dim() != 3 && x.dim() != 4)
      throw Error("ShapeMismatch", "Conv2d takes [batch, channels, rows, columns] or [channels, rows, columns], not " +
                                       std::to_string(x.dim()) + " axes");
    if (x.size(-3) != options.in_channels())
      throw Error("ShapeMismatch", "Conv2d of " + std::to_string(options.in_channels()) + " input channels given " +
                                       std::to_string(x.size(-3)));
    if (x.scalar_type() != weight.scalar_type())
      throw Error("ShapeMismatch", std::string("Conv2d with weights of ") + c10::toString(weight.scalar_type()) +
                                       " given " + c10::toString(x.scalar_type()));
  };
  auto const make = [&](Layout const& layout) {
    auto const description = describe(options, padding_by_, domain_, odd_channels_);
    check_padding(description, layout, padding_by_);
    return std::make_shared<detail::ConvSetUp const>(domain_.comm(), layout, description);
  };
  auto const call = state_->enter(x, check, make, weight.requires_grad());
  auto const y = state_->record(detail::sharded_convolution(call.set_up, x.dim() == 3 ? x.unsqueeze(0) : x, weight,
                                                            bias, call.anchor, call.input_grad));
  return x.dim() == 3 ? y.squeeze(0) : y;
}

void Conv2dImpl::reset_structure() { state_->reset_structure(); }

int Conv2dImpl::num_set_ups() const noexcept { return state_->num_set_ups(); }

}  // namespace graticule::nn
