// SPDX-License-Identifier: BSD-3-Clause
// Means over the globe, and corrections of a prediction that keep them.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/collective/collectives.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

namespace detail {
class FixerState;
class MeanState;
}  // namespace detail

/// Areas of rows and thicknesses of levels; any unit.
struct MeanWeights {
  /// One for each row of this rank's shard (see `area_weights`), or
  std::vector<double> rows = {};
  /// one for each row of the globe, of which each rank takes those of its rows; none: 1.
  std::vector<double> global_rows = {};
  /// One for each level of [batch, channels, levels, rows, columns]: the mean goes over the levels, too. None: each level
  /// has its own mean.
  std::vector<double> levels = {};
};

/// Weighted mean over the rows and columns of all ranks, of each sample, channel (and level), in f64: [batch, channels].
class GlobalMeanImpl : public detail::StatefulModule<GlobalMeanImpl, detail::MeanState> {
 public:
  /// Collective. @param consumer who works with the means: `distinct` where each rank goes on with its own cells,
  /// `replicated` where they enter a loss, the same on all ranks @throws `BadWeights`
  GlobalMeanImpl(Consumer consumer, Domain const& domain, MeanWeights weights = {});

  /// Collective. @param x [..., rows, columns] @throws `WeightLength`, `ShapeMismatch`, `EmptyMean` where the weights of
  /// all ranks sum to 0, `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`, on all ranks alike
  /// Cost: the agreement, and one all-reduce of a number for each mean, in the backward as well for `distinct`
  torch::Tensor forward(torch::Tensor const& x);

 private:
  Consumer consumer_;
  MeanWeights weights_;
};
TORCH_MODULE(GlobalMean);

enum class Correction : std::uint8_t {
  additive,        ///< the same number added to all cells: x + (wanted - mean)
  multiplicative,  ///< all cells times the same number, which keeps signs and zeros: x * wanted / mean
};

struct ConservationOptions {
  Correction correction = Correction::additive;
  /// Channels to correct, along axis 1; none: all.
  std::vector<std::int64_t> channels = {};
  MeanWeights weights = {};
};

/// Corrects a prediction so that its global means are those of the input, or given ones.
///
/// The gradient goes through the means as well, by the true adjoint: with an additive correction to given means, that
/// of each channel has the weighted mean 0. In f32 the corrected mean is right to rounding of the cells.
/// Example: air mass, `{.correction = Correction::multiplicative, .channels = {5}, .weights = {.global_rows = areas}}`.
class ConservationFixerImpl : public detail::StatefulModule<ConservationFixerImpl, detail::FixerState> {
 public:
  /// Collective. @throws `BadWeights`, `RepeatedChannel`
  explicit ConservationFixerImpl(Domain const& domain, ConservationOptions options = {});

  /// Collective. @param prediction [batch, channels, ..., rows, columns]
  /// @param reference a field of the same sizes, of the rank's own cells; its means of the chosen channels are kept
  /// @throws what `GlobalMean` throws, `ChannelOutOfRange`, `ZeroMean` where a mean to divide by is 0, on all ranks alike
  /// Cost: as `GlobalMean`, of both fields in one message
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& reference);

  /// The same for given means, equal on all ranks: [batch, chosen channels], and levels unless the means go over them.
  /// Their gradients are partial sums, as those of parameters are.
  torch::Tensor to_means(torch::Tensor const& prediction, torch::Tensor const& means);

 private:
  torch::Tensor chosen(torch::Tensor const& x) const;
  torch::Tensor corrected(torch::Tensor const& prediction, torch::Tensor const& mean,
                          torch::Tensor const& wanted) const;
  void check(torch::Tensor const& prediction) const;

  ConservationOptions options_;
};
TORCH_MODULE(ConservationFixer);

}  // namespace graticule::nn
