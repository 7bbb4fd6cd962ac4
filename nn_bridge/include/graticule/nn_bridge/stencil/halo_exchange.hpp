// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/box.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

namespace detail {
class HaloExchangeState;
}

struct HaloExchangeOptions {
  Width latitude = {};   ///< rows added {north side = lower index, upper index}; negative crops
  Width longitude = {};  ///< columns added
  /// Channels that hold components of a horizontal vector: they change sign across a pole.
  std::vector<std::int64_t> odd_channels = {};
  /// The tensor's axes of latitude and longitude, counted from the last as -1; of latitude alone where the domain's
  /// longitude is whole and has no halo: then a pole is crossed to the same column.
  std::vector<std::int64_t> axes = {-2, -1};
  std::int64_t channel_axis = -3;  ///< of `odd_channels`
};

/// Returns the shard with its halo: [..., rows + widths, columns + widths], a fresh tensor.
///
/// Rows and columns may be any axes. Example: `{.latitude = {1, 1}, .longitude = {1, 1}, .axes = {-3, -2}}` for [batch, rows,
/// columns, channels]; `{.latitude = {1, 1}, .axes = {-3}}` for [rows, batch, channels]. A contiguous shard gives a
/// contiguous result, by one more copy unless the axes are the last two, or the last but one of four.
/// Halo cells come from the other ranks and, beyond the globe, from the domain's boundary; also on one rank.
/// Differentiable to any order: the backward is the adjoint, which sends halo cotangents home and adds them.
/// Nothing is known at construction; plans are made at the first forward and whenever the global structure changes.
/// Cost: one small all-reduce and one message per peer a call.
class HaloExchangeImpl : public detail::StatefulModule<HaloExchangeImpl, detail::HaloExchangeState> {
 public:
  /// @throws `BadAxis`; `BadHaloWidth` and `LongitudeIsCut` for `axes` without longitude where that has a halo or is cut
  HaloExchangeImpl(HaloExchangeOptions options, Domain domain);

  /// Collective. @param x [..., rows, columns], this rank's shard
  /// @throws `BadHaloWidth` where a shard is smaller than what is cropped, `ShapeMismatch`,
  ///         `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

 private:
  HaloExchangeOptions options_;
};
TORCH_MODULE(HaloExchange);

}  // namespace graticule::nn
