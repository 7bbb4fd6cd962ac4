// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/box.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::nn {

namespace detail {
class HaloExchangeState;
}

/// Widths and axes of a halo exchange.
struct HaloExchangeOptions {
  Width latitude = {};   ///< rows added {north side = lower index, upper index}; negative crops
  Width longitude = {};  ///< columns added
  /// Channels that hold components of a horizontal vector: they change sign across a pole.
  std::vector<std::int64_t> odd_channels = {};
  /// The tensor's axes of latitude and longitude, counted from the last as -1. Latitude alone is sufficient if the
  /// domain's longitude is whole and has no halo; a pole is then crossed to the same column.
  std::vector<std::int64_t> axes = {-2, -1};
  std::int64_t channel_axis = -3;  ///< of `odd_channels`
};

/// Returns the shard with its halo, [..., rows + widths, columns + widths], as a new tensor.
///
/// Rows and columns may be any axes. Example: `{.latitude = {1, 1}, .longitude = {1, 1}, .axes = {-3, -2}}` for [batch,
/// rows, columns, channels]; `{.latitude = {1, 1}, .axes = {-3}}` for [rows, batch, channels]. A contiguous shard gives
/// a contiguous result; this takes an additional copy unless the axes are the last two, or the last but one of four.
/// Halo cells come from other ranks and, beyond the globe, from the domain's boundary rules, also on a single rank.
/// Differentiable to any order: the backward is the adjoint, which sends halo cotangents to their owners and adds them.
/// Plans are made at the first forward and after each change of the global structure.
/// Cost per call: one small all-reduce and one message per peer.
class HaloExchangeImpl : public detail::StatefulModule<HaloExchangeImpl, detail::HaloExchangeState> {
 public:
  /// @throws `BadAxis`; for `axes` without longitude: `BadHaloWidth` if it has a halo, `LongitudeIsCut` if it is cut
  HaloExchangeImpl(HaloExchangeOptions options, Domain domain);

  /// Collective. @param x [..., rows, columns], this rank's shard
  /// @throws `BadHaloWidth` if a shard is smaller than the crop, `ShapeMismatch`,
  ///         `StructureDisagreement`, `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

 private:
  HaloExchangeOptions options_;
};
TORCH_MODULE(HaloExchange);

}  // namespace graticule::nn
