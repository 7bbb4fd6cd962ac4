// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::nn::detail {

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

}  // namespace graticule::nn::detail
