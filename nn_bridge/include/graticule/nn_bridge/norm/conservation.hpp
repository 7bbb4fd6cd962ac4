// SPDX-License-Identifier: BSD-3-Clause
// Means over the globe, and corrections that conserve them in a prediction.
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
class Constant;
class FixerState;
class MeanState;
}  // namespace detail

/// Areas of rows and thicknesses of levels, in any unit.
struct MeanWeights {
  /// One weight per row of this rank's shard (see `area_weights`), or
  std::vector<double> rows = {};
  /// One per row of the globe, of which each rank takes those of its rows. Empty: 1.
  std::vector<double> global_rows = {};
  /// One weight per level of [batch, channels, levels, rows, columns]: the mean then includes the levels. Empty: each
  /// level has its own mean.
  std::vector<double> levels = {};
};

/// Weighted mean over the rows and columns of all ranks, per sample, channel (and level), in f64: [batch, channels].
class GlobalMeanImpl : public detail::StatefulModule<GlobalMeanImpl, detail::MeanState> {
 public:
  /// Collective. @param consumer how the means are used: `distinct` if each rank applies them to its own cells,
  /// `replicated` if they enter a loss in the same way on all ranks @param domain the ranks that share a sample
  /// @param weights default: 1 @throws `BadOption`
  GlobalMeanImpl(Consumer consumer, Domain const& domain, MeanWeights weights = {});

  /// Collective. @param x [..., rows, columns] @throws `ShapeMismatch`, `TooFewValues` where the weights of all ranks
  /// sum to 0, `StructureDisagreement`, `CallDisagreement`, on all ranks alike Cost: the agreement, and one all-reduce
  /// of one number per mean; for `distinct` another one in the backward.
  torch::Tensor forward(torch::Tensor const& x);

 private:
  Consumer consumer_;
  MeanWeights weights_;
};
TORCH_MODULE(GlobalMean);

/// How `ConservationFixer` changes the cells of a channel.
enum class Correction : std::uint8_t {
  additive,        ///< adds one number to all cells: x + (wanted - mean)
  multiplicative,  ///< multiplies all cells by one number, which keeps signs and zeros: x * wanted / mean
};

/// Options of `ConservationFixer`.
struct ConservationOptions {
  Correction correction = Correction::additive;
  /// Channels to correct, along axis 1. Empty: all.
  std::vector<std::int64_t> channels = {};
  MeanWeights weights = {};
};

/// Corrects a prediction so that its global means are those of the input, or given ones.
///
/// The gradient is exact and includes the dependence on the means: with an additive correction to given means, the
/// gradient of each channel has weighted mean 0. In f32 the corrected mean is accurate to the rounding of the cells.
/// Example: air mass, `{.correction = Correction::multiplicative, .channels = {5}, .weights = {.global_rows = areas}}`.
class ConservationFixerImpl : public detail::StatefulModule<ConservationFixerImpl, detail::FixerState> {
 public:
  /// Collective. @throws `BadOption`
  explicit ConservationFixerImpl(Domain const& domain, ConservationOptions options = {});

  /// Collective. @param prediction [batch, channels, ..., rows, columns]
  /// @param reference a field of the same sizes, this rank's shard; supplies the means of the chosen channels
  /// @throws what `GlobalMean` throws, `OutOfRange`, `NotFinite` if a divisor mean is 0, on all ranks alike
  /// Cost: as `GlobalMean`, with both fields in one message
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& reference);

  /// The same for given means, equal on all ranks: [batch, chosen channels], and levels unless the means include them.
  /// Their gradients are partial sums, as for parameters.
  torch::Tensor to_means(torch::Tensor const& prediction, torch::Tensor const& means);

 private:
  torch::Tensor chosen(torch::Tensor const& x) const;
  torch::Tensor corrected(torch::Tensor const& prediction, torch::Tensor const& mean,
                          torch::Tensor const& wanted) const;
  void check(torch::Tensor const& prediction) const;

  ConservationOptions options_;
  std::shared_ptr<detail::Constant const> channels_;
};
TORCH_MODULE(ConservationFixer);

}  // namespace graticule::nn
