// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace graticule::nn {

/// Values of the padding.
enum class PadMode : std::uint8_t {
  constant,
  reflect,    ///< mirrored about the edge cell, which is not repeated
  replicate,  ///< the edge cell
  circular,   ///< the opposite side
  domain,     ///< cells across the poles and the date line, by the domain's boundary
};

/// The ranks that own the padding.
enum class PadCuts : std::uint8_t {
  extend_edges,  ///< cuts are kept: the outermost non-empty shards grow (or shrink)
  balanced,      ///< the padded field is cut evenly, in the same move
};

/// Widths and values of a padding.
template <std::size_t D>
struct PadOptions {
  /// @param padding_mode values of the padding @param widths both sides of each axis in LibTorch's order, the last axis
  ///        first: {west, east, north, south}, in 3d followed by levels, in 1d {north, south}. Negative widths crop
  PadOptions(torch::ExpandingArray<2 * D> widths, PadMode padding_mode = PadMode::constant)
      : padding(std::move(widths)), mode(padding_mode) {}
  PadOptions(torch::nn::ZeroPadOptions<D> const& o) : PadOptions(o.padding()) {}
  PadOptions(torch::nn::ConstantPadOptions<D> const& o) : PadOptions(o.padding()) { value = o.value(); }
  PadOptions(torch::nn::ReflectionPadOptions<D> const& o) : PadOptions(o.padding(), PadMode::reflect) {}
  PadOptions(torch::nn::ReplicationPadOptions<D> const& o) : PadOptions(o.padding(), PadMode::replicate) {}

  torch::ExpandingArray<2 * D> padding;
  PadMode mode;
  double value = 0;  ///< of `PadMode::constant`
  PadCuts cuts = PadCuts::extend_edges;
  /// With `PadMode::domain`: channels that hold components of a horizontal vector, see `HaloExchangeOptions`.
  std::vector<std::int64_t> odd_channels = {};
};

namespace detail {
class Padder;
}

/// Pads the whole field, not the shards, as LibTorch's `pad`, into a new tensor. Differentiable to any order.
///
/// For models that use padded fields. Layers with their own padding (`Conv2d`) are cheaper.
/// Example: 7 rows in parts 4 3, widths {.., .., 2, 1}: parts 6 4, or 5 5 balanced.
/// Cost: one small all-reduce and the messages; no messages for a crop that keeps the cuts.
template <std::size_t D>
class PadImpl : public detail::StatefulModule<PadImpl<D>, detail::Padder> {
 public:
  /// @throws `BadBoundary` for widths of levels in `PadMode::domain`
  PadImpl(PadOptions<D> options, Domain domain);

  /// Collective. @param x [batch, channels, rows, columns], with levels before the rows in 3d, [batch, channels,
  ///        length] in 1d, all also without batch; this rank's shard
  /// @throws `BadHaloWidth` for widths that LibTorch rejects, or if nothing remains, `LongitudeIsCut`,
  /// `ShapeMismatch`, `StructureDisagreement`, `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);
};

/// Removes `widths` from the edges of the whole field: the inverse of a `Pad` of the same widths, for any mode. Cuts
/// are kept.
template <std::size_t D>
class TrimImpl : public detail::StatefulModule<TrimImpl<D>, detail::Padder> {
 public:
  /// @param domain the ranks that share a sample @param widths in the order of `PadOptions` @throws `BadHaloWidth` for
  ///        negative ones
  TrimImpl(torch::ExpandingArray<2 * D> const& widths, Domain domain);

  /// Collective. Shapes and errors are those of `Pad`.
  torch::Tensor forward(torch::Tensor const& x);
};

extern template class PadImpl<1>;
extern template class PadImpl<2>;
extern template class PadImpl<3>;
extern template class TrimImpl<1>;
extern template class TrimImpl<2>;
extern template class TrimImpl<3>;

using Pad1dImpl = PadImpl<1>;
using Pad2dImpl = PadImpl<2>;
using Pad3dImpl = PadImpl<3>;
TORCH_MODULE(Pad1d);
TORCH_MODULE(Pad2d);
TORCH_MODULE(Pad3d);
using Trim1dImpl = TrimImpl<1>;
using Trim2dImpl = TrimImpl<2>;
using Trim3dImpl = TrimImpl<3>;
TORCH_MODULE(Trim1d);
TORCH_MODULE(Trim2d);
TORCH_MODULE(Trim3d);

}  // namespace graticule::nn
