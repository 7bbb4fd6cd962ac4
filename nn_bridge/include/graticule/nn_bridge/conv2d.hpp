// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

/// Who says what padding holds: LibTorch's padding mode, or the boundary of the domain (poles, periodic longitude).
enum class Padding : std::uint8_t { by_mode, by_domain };

struct Conv2dOptions {
  Conv2dOptions(torch::nn::Conv2dOptions torch_options, Padding padding_by = Padding::by_mode)
      : conv(std::move(torch_options)), padding(padding_by) {}

  torch::nn::Conv2dOptions conv;  ///< kernel, stride, padding, dilation, groups, bias, padding mode
  Padding padding = Padding::by_mode;
  /// Input channels that hold components of a horizontal vector: they change sign across a pole.
  std::vector<std::int64_t> odd_channels;
};

/// `torch::nn::Conv2d` of a field that is sharded over latitude and longitude: the same output and the same gradients
/// for any cuts, with parameters of the same names and shapes.
///
/// Padding means the edge of the globe, never the edge of a shard. The rank that owns the middle of a window owns its
/// output: output row o belongs to the rank of input row clamp(o * stride - padding + (dilation * (kernel - 1)) / 2), so
/// that stride 1 with `same` padding keeps the cuts. A rank may hold no rows, or get none.
/// The unpadded local convolution runs while the halo is under way; what the halo adds to the rim is added in place
/// (`docs/decisions/0003-halo-by-linearity.md`). Weight gradients are partial sums: reduce them by `GradientSync`.
class Conv2dImpl : public torch::nn::ConvNdImpl<2, Conv2dImpl> {
 public:
  Conv2dImpl(Conv2dOptions const& options, Domain domain);

  /// Collective. @param x [batch, channels, rows, columns] or [channels, rows, columns], this rank's shard
  /// @throws `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`, `KernelTooLarge`,
  ///         `PaddingTooWide`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;
  void reset_structure();
  [[nodiscard]] int num_set_ups() const noexcept;

 private:
  struct State;
  Padding padding_by_;
  std::vector<std::int64_t> odd_channels_;
  Domain domain_;
  std::shared_ptr<State> state_;
};
TORCH_MODULE(Conv2d);

}  // namespace graticule::nn
