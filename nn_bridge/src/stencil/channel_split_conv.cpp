// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/channel_split_conv.hpp>
#include <graticule/partition/error.hpp>

#include "call/spatial.hpp"
#include "conv_geometry.hpp"
#include "conv_options.hpp"
#include "convolution.hpp"

#include <algorithm>

namespace graticule::nn {

namespace {

/// Padding of all axes, lower and upper, last axis first.
template <std::size_t D>
std::vector<std::int64_t> pads_of(detail::ConvNdOptions<D> const& o) {
  std::vector<std::int64_t> pads;
  for (std::size_t a = D; a-- > 0;) {
    auto const width = detail::padding_of(o, a);
    pads.push_back(width.lower);
    pads.push_back(width.upper);
  }
  return pads;
}

std::string mode_name(torch::nn::detail::conv_padding_mode_t const& mode) {
  if (std::holds_alternative<torch::enumtype::kReflect>(mode)) return "reflect";
  if (std::holds_alternative<torch::enumtype::kReplicate>(mode)) return "replicate";
  if (std::holds_alternative<torch::enumtype::kCircular>(mode)) return "circular";
  return "constant";
}

/// LibTorch rejects convolutions without channels: a channel of zeros replaces them, with a graph edge to `x`.
torch::Tensor one_for_none(torch::Tensor const& x, std::int64_t axis) {
  auto sizes = x.sizes().vec();
  sizes[std::size_t(axis)] = 1;
  return torch::zeros(sizes, x.options().requires_grad(false)) + x.sum();
}

template <std::size_t D>
Sharding by_channels(Domain const& domain) {
  return {{-std::int64_t(D) - 1}, ProcessGrid{domain.comm().num_ranks()}};
}

}  // namespace

template <std::size_t D>
ChannelSplitConvImpl<D>::ChannelSplitConvImpl(torch::nn::ConvOptions<D> const& given, SplitOptions const& split,
                                              Domain const& domain)
    : detail::StatefulModule<ChannelSplitConvImpl<D>, detail::SplitLayer,
                             torch::nn::ConvNdImpl<D, ChannelSplitConvImpl<D>>>(
          domain,
          [=](Domain const& of) {
            detail::SplitLayer::Features const features{-std::int64_t(D) - 1, given.in_channels(),
                                                        given.out_channels()};
            return std::make_shared<detail::SplitLayer>("ChannelSplitConv" + std::to_string(D) + "d", features, split,
                                                        of, by_channels<D>(of));
          },
          detail::nd_options(given)),
      pads_(pads_of(this->options)) {
  if (given.groups() != 1)
    throw Error("Unsupported", "a convolution of " + std::to_string(given.groups()) +
                                   " groups cannot be cut along channels; use one convolution per group");
}

template <std::size_t D>
void ChannelSplitConvImpl<D>::check(torch::Tensor const& x) const {
  auto const& o = this->options;
  auto const layer = "ChannelSplitConv" + std::to_string(D) + "d";
  auto const takes = c10::str(layer, " takes ", detail::axis_names(D), " or the same without batch, of ",
                              this->weight.scalar_type(), ", not ");
  if (!x.defined() || x.layout() != torch::kStrided) throw Error("ShapeMismatch", takes + "no dense tensor");
  if ((x.dim() != std::int64_t(D) + 1 && x.dim() != std::int64_t(D) + 2) ||
      x.scalar_type() != this->weight.scalar_type())
    throw Error("ShapeMismatch", c10::str(takes, x.sizes(), " of ", x.scalar_type()));
  for (std::size_t a = 0; a < D; ++a) {
    auto const extent = x.size(std::int64_t(a) - std::int64_t(D));
    auto const width = detail::padding_of(o, a);
    (void)detail::ConvAxis{.extent = extent,
                           .kernel = (*o.kernel_size())[a],
                           .dilation = (*o.dilation())[a],
                           .before = width.lower,
                           .after = width.upper}
        .num_outputs();
    detail::check_width(detail::edge_of(o.padding_mode()), width, extent);
  }
}

template <std::size_t D>
torch::Tensor ChannelSplitConvImpl<D>::local(torch::Tensor const& x, torch::Tensor const& kernels,
                                             torch::Tensor const& shifts) const {
  auto const& o = this->options;
  bool const batched = x.dim() == std::int64_t(D) + 2;
  auto given = batched ? x : x.unsqueeze(0);
  auto slice = kernels;
  auto shift = shifts;
  if (slice.size(1) == 0) {
    given = one_for_none(given, 1);
    slice = one_for_none(slice, 1);
  }
  bool const no_output = slice.size(0) == 0;
  if (no_output) {
    slice = one_for_none(slice, 0);
    shift = torch::Tensor();
  }
  if (std::any_of(pads_.begin(), pads_.end(), [](auto pad) { return pad != 0; }))
    given = torch::pad(given, pads_, mode_name(o.padding_mode()));
  auto const axes = [](torch::ExpandingArray<D> const& array) {
    return std::vector<std::int64_t>(array->begin(), array->end());
  };
  detail::Windows const windows{
      .stride = axes(o.stride()), .padding = std::vector<std::int64_t>(D, 0), .dilation = axes(o.dilation())};
  auto y = detail::convolution(given, slice, shift, windows);
  if (no_output) y = y.narrow(1, 0, 0);
  return batched ? y : y.squeeze(0);
}

template <std::size_t D>
torch::Tensor ChannelSplitConvImpl<D>::forward(torch::Tensor const& x) {
  return this->state().forward(
      x, [&] { check(x); }, this->weight, this->bias,
      [&](auto const& part, auto const& slice, auto const& shift) { return local(part, slice, shift); });
}

template class ChannelSplitConvImpl<1>;
template class ChannelSplitConvImpl<2>;
template class ChannelSplitConvImpl<3>;

}  // namespace graticule::nn
