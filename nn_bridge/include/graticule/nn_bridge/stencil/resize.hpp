// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/stencil/conv.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::nn {

namespace detail {
struct Like;
class ResizeState;
}  // namespace detail

/// LibTorch's options and those of the globe.
struct ResizeOptions {
  static constexpr std::int64_t same = -1;  ///< as a size: the input's

  /// Sizes refer to the whole field, one per axis. `forward_like` needs neither size nor scale factor.
  ResizeOptions(torch::nn::functional::InterpolateFuncOptions torch_options = {},
                Padding padding_by = Padding::by_mode);
  ResizeOptions(torch::nn::UpsampleOptions const& torch_options, Padding padding_by = Padding::by_mode);

  /// Nearest, nearest-exact, linear, bilinear, trilinear, bicubic, area; size or scale factors; corner convention.
  torch::nn::functional::InterpolateFuncOptions interpolate;
  /// The cells that interpolation reads beyond the edges: the edge cell repeated, as in LibTorch, or the domain's
  /// cells, so that no seam is visible at the date line. Levels always end at their edge.
  Padding padding = Padding::by_mode;
  /// With `Padding::by_domain`: channels that hold components of a horizontal vector, see `HaloExchangeOptions`.
  std::vector<std::int64_t> odd_channels;
};

/// LibTorch's `interpolate` and `Upsample` of a field that is sharded over latitude and longitude. For any cuts, output
/// and gradients equal the serial ones.
///
/// Takes [batch, channels, rows, columns], with whole levels before the rows, or [batch, channels, length] with the
/// length cut along latitude. Output row o of M belongs to the rank that owns input row floor((2 o + 1) N / (2 M)) of
/// N, which contains the center of the output row; a rank may receive none. Nearest modes choose the same cells as
/// LibTorch for contiguous tensors of that type. (LibTorch's f64 gradients use the cells chosen in f32; here they match
/// the forward.) Differentiable to any order. Cost: one small all-reduce, the messages, and one pass over the field per
/// axis.
class ResizeImpl : public detail::StatefulModule<ResizeImpl, detail::ResizeState> {
 public:
  /// Without a domain the layer is serial until `shard` moves it to the model's.
  /// @throws `Unsupported`; `BadOption` for both size and scale factor, or aligned corners in nearest or area
  ///        mode
  explicit ResizeImpl(ResizeOptions options, Domain domain = {});

  /// Collective. @param x this rank's shard, f64, f32, bf16 or f16
  /// @throws `BadOption` if the options do not fit the axes of `x` or leave no cells, `LongitudeIsCut` for a length,
  /// `ShapeMismatch`, `StructureDisagreement`, `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// Resizes to the global sizes and cuts of `like`, ignoring the sizes of the options: for skip connections of odd
  /// size. Example: rows 721 -> 361 by a strided layer, and `forward_like(deep, skip)` has 721 rows, cut as `skip`.
  /// Collective. @param x this rank's shard @param like this rank's shard, of any batch, channels and dtype
  /// Cost: one additional small all-reduce
  torch::Tensor forward_like(torch::Tensor const& x, torch::Tensor const& like);

 private:
  torch::Tensor resized(torch::Tensor const& x, detail::Like const& like);

  ResizeOptions options_;
};
TORCH_MODULE(Resize);

}  // namespace graticule::nn
