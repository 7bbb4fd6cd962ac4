// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/stencil/conv.hpp>
#include <graticule/partition/layout.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

namespace detail {
class ResizeState;
}

struct ResizeOptions {
  static constexpr std::int64_t same = -1;  ///< as a size: that of the input

  /// Sizes are those of the whole field, one for each axis. Neither size nor scale factor: for `forward_like`.
  ResizeOptions(torch::nn::functional::InterpolateFuncOptions torch_options = {},
                Padding padding_by = Padding::by_mode);
  ResizeOptions(torch::nn::UpsampleOptions const& torch_options, Padding padding_by = Padding::by_mode);

  /// Nearest, nearest-exact, linear, bilinear, trilinear, bicubic, area; size or scale factors; corner convention.
  torch::nn::functional::InterpolateFuncOptions interpolate;
  /// What interpolation reads beyond the edges: the edge cell again, as LibTorch does, or the domain's cells, so that no
  /// seam shows where longitude begins. Levels always end at their edge.
  Padding padding = Padding::by_mode;
  /// With `Padding::by_domain`: channels that hold components of a horizontal vector, see `HaloExchangeOptions`.
  std::vector<std::int64_t> odd_channels;
};

/// LibTorch's `interpolate`, and `Upsample`, of a field that is sharded over latitude and longitude: the same output and
/// gradients for any cuts.
///
/// Takes [batch, channels, rows, columns], with whole levels before the rows, or [batch, channels, length] with the length
/// cut along latitude. Output row o of M belongs to the rank that owns input row floor((2 o + 1) N / (2 M)) of N, where the
/// middle of the output row lies; a rank may get none. Nearest modes choose the very cells that LibTorch chooses for
/// contiguous tensors of that type (its gradients in f64 are those of f32's choice; here they belong to the forward).
/// Differentiable to any order. Cost: one small all-reduce, the messages, and one pass over the field for each axis.
class ResizeImpl : public detail::StatefulModule<ResizeImpl, detail::ResizeState> {
 public:
  /// Without a domain the layer is serial until `shard` moves it to the model's.
  /// @throws `AntialiasUnsupported`; `BadResize` for size with scale factor, or corners aligned in nearest or area mode
  explicit ResizeImpl(ResizeOptions options, Domain domain = {});

  /// Collective. @param x this rank's shard, f64, f32, bf16 or f16
  /// @throws `BadResize` where the options do not fit the axes of `x` or leave no cells, `LongitudeIsCut` for a length,
  ///         `ShapeMismatch`, `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// Resizes to the global sizes and the cuts of `like`, whatever sizes the options say: the way back up to a skip
  /// connection of odd size. Example: rows 721 -> 361 by a strided layer, and `forward_like(deep, skip)` has 721 rows where
  /// `skip` has them. Collective. @param like this rank's shard; its batch, channels and dtype may be any
  /// Cost: one small all-reduce more
  torch::Tensor forward_like(torch::Tensor const& x, torch::Tensor const& like);

 private:
  torch::Tensor resized(torch::Tensor const& x, Layout const* like, std::int64_t like_levels);

  ResizeOptions options_;
};
TORCH_MODULE(Resize);

}  // namespace graticule::nn
