// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>

namespace graticule::nn {

namespace detail {
class UnshuffleState;
}

/// LibTorch's `pixel_shuffle` of shards: [..., channels r^2, rows, columns] to [..., channels, rows r, columns r].
///
/// Each input cell becomes r x r output cells of the same rank. Cost: one small all-reduce, no messages.
class PixelShuffleImpl : public CommunicatingModule<PixelShuffleImpl, detail::NoSetUp> {
 public:
  /// @throws `BadOption` for a factor below 1
  PixelShuffleImpl(torch::nn::PixelShuffleOptions const& options, Domain const& domain);

  /// Collective. @throws `ShapeMismatch` for channels that r^2 does not divide, `StructureDisagreement`,
  ///         `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

 private:
  std::int64_t factor_;
};
TORCH_MODULE(PixelShuffle);

/// LibTorch's `pixel_unshuffle` of shards, the inverse: [..., channels, rows r, columns r] to
/// [..., channels r^2, rows, columns].
///
/// The rank that owns input row o r + (r - 1) / 2 owns output row o. Differentiable to any order. Cost: one small
/// all-reduce; messages only where a cut divides r x r cells.
class PixelUnshuffleImpl : public detail::StatefulModule<PixelUnshuffleImpl, detail::UnshuffleState> {
 public:
  /// @throws `BadOption` for a factor below 1
  PixelUnshuffleImpl(torch::nn::PixelUnshuffleOptions const& options, Domain domain);

  /// Collective. @throws `ShapeMismatch` unless r divides all rows and all columns, `StructureDisagreement`,
  ///         `CallDisagreement`, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

 private:
  std::int64_t factor_;
};
TORCH_MODULE(PixelUnshuffle);

}  // namespace graticule::nn
