// SPDX-License-Identifier: BSD-3-Clause
// Interpretation of LibTorch's convolution options.
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/error.hpp>

#include <torch/torch.h>

#include <string>
#include <variant>

namespace graticule::nn::detail {

/// Those that LibTorch's base class of all convolutions takes.
template <std::size_t D>
using ConvNdOptions = torch::nn::detail::ConvNdOptions<D>;

/// @throws `BadOption`
template <std::size_t D>
ConvNdOptions<D> checked(ConvNdOptions<D> const& o) {
  auto const* padding = std::get_if<torch::ExpandingArray<D>>(&o.padding());
  for (std::size_t a = 0; a < D; ++a) {
    Index const kernel = (*o.kernel_size())[a];
    Index const stride = (*o.stride())[a];
    Index const dilation = (*o.dilation())[a];
    Index const cells = padding ? (**padding)[a] : 0;
    if (kernel < 1 || stride < 1 || dilation < 1 || cells < 0)
      throw Error(
          "BadOption",
          c10::str("a convolution needs a kernel, a stride and a dilation of at least 1 and a padding of at ",
                   "least 0, got kernel ", kernel, ", stride ", stride, ", dilation ", dilation, ", padding ", cells));
  }
  return o;
}

/// `to` with what LibTorch's options of convolutions and of transposed ones have in common, without channels, kernel
/// and padding, from `from`.
template <class Options, class From>
Options with_common_options(Options to, From const& from) {
  return to.stride(from.stride())
      .dilation(from.dilation())
      .groups(from.groups())
      .bias(from.bias())
      .padding_mode(from.padding_mode());
}

template <std::size_t D, class Options>
ConvNdOptions<D> common_options(Options const& o) {
  return with_common_options(ConvNdOptions<D>(o.in_channels(), o.out_channels(), o.kernel_size()), o)
      .padding(o.padding());
}

/// @throws `BadOption` for kernels, strides or dilations below 1, or padding below 0
template <std::size_t D>
ConvNdOptions<D> nd_options(torch::nn::ConvOptions<D> const& o) {
  return checked(common_options<D>(o).transposed(false).output_padding(0));
}
template <std::size_t D>
ConvNdOptions<D> nd_options(torch::nn::ConvTransposeOptions<D> const& o) {
  return checked(common_options<D>(o).transposed(true).output_padding(o.output_padding()));
}

/// Explicit padding, none, or `same`, which adds the odd cell on the upper side.
template <std::size_t D>
Width padding_of(ConvNdOptions<D> const& options, std::size_t axis) {
  if (auto const* cells = std::get_if<torch::ExpandingArray<D>>(&options.padding()))
    return {(**cells)[axis], (**cells)[axis]};
  if (std::holds_alternative<torch::enumtype::kValid>(options.padding())) return {0, 0};
  Index const total = (*options.dilation())[axis] * ((*options.kernel_size())[axis] - 1);
  return {total / 2, total - total / 2};
}

inline Edge edge_of(torch::nn::detail::conv_padding_mode_t const& mode) {
  if (std::holds_alternative<torch::enumtype::kReflect>(mode)) return Edge::reflect;
  if (std::holds_alternative<torch::enumtype::kReplicate>(mode)) return Edge::replicate;
  if (std::holds_alternative<torch::enumtype::kCircular>(mode)) return Edge::periodic;
  return Edge::constant;
}

}  // namespace graticule::nn::detail
