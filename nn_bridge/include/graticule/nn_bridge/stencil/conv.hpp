// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace graticule::nn {

namespace detail {
class ConvSetUp;
}

/// The source of padding values: LibTorch's padding mode, or the boundary of the domain (poles, periodic longitude).
enum class Padding : std::uint8_t { by_mode, by_domain };

/// LibTorch's options and those of the globe.
template <std::size_t D>
struct ConvOptions {
  ConvOptions(torch::nn::ConvOptions<D> torch_options, Padding padding_by = Padding::by_mode)
      : conv(std::move(torch_options)), padding(padding_by) {}

  torch::nn::ConvOptions<D> conv;      ///< kernel, stride, padding, dilation, groups, bias, padding mode
  Padding padding = Padding::by_mode;  ///< of rows and columns; levels always follow the padding mode
  /// Input channels that hold components of a horizontal vector: they change sign across a pole.
  std::vector<std::int64_t> odd_channels;
};

/// LibTorch's convolution of a field that is sharded over latitude and longitude. For any cuts, output and gradients
/// equal the serial ones, and parameters have the same names and shapes.
///
/// `Conv2d` takes [batch, channels, rows, columns]. `Conv3d` takes [batch, channels, levels, rows, columns], levels
/// whole. `Conv1d` takes [batch, channels, length], the length cut along latitude; across a pole a zonal mean reads
/// itself. The batch axis is optional. Padding applies to the edge of the globe, never to the edge of a shard. The rank
/// that owns the center of a window owns its output: output row o belongs to the rank of input row clamp(o * stride -
/// padding + (dilation * (kernel - 1)) / 2), so that stride 1 with `same` padding keeps the cuts. A rank may hold no
/// rows, or receive none. The unpadded local convolution overlaps the halo exchange; the halo's contribution to the rim
/// is added in place (`docs/decisions/0003-halo-by-linearity.md`). Weight gradients are partial sums: reduce them by
/// `GradientSync`.
template <std::size_t D>
class ConvImpl : public CommunicatingModule<ConvImpl<D>, detail::ConvSetUp, torch::nn::ConvNdImpl<D, ConvImpl<D>>> {
 public:
  /// @throws `BadBoundary` for channels that the layer lacks, `LongitudeIsCut` for `Conv1d` in a domain whose longitude
  ///        has several parts
  ConvImpl(ConvOptions<D> const& options, Domain const& domain);

  /// Collective. @param x this rank's shard
  /// @throws `StructureDisagreement`, `CallDisagreement`, `ShapeMismatch`,
  ///         `KernelTooLarge`, `BadHaloWidth`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

 private:
  void check(torch::Tensor const& x) const;

  Padding padding_by_;
  std::vector<std::int64_t> odd_channels_;
};

extern template class ConvImpl<1>;
extern template class ConvImpl<2>;
extern template class ConvImpl<3>;

}  // namespace graticule::nn
