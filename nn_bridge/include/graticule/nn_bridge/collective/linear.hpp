// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/collective/feature_split.hpp>

#include <torch/torch.h>

#include <cstdint>

namespace graticule::nn {

/// A linear layer whose input or output features, or both, are cut over ranks. Where no feature is cut,
/// `torch::nn::Linear` is right as it is.
///
/// Parameters are the serial ones, whole on every rank: files, `GradientSync` and optimizers need to know nothing of the
/// cuts, and weights are small beside fields. Each rank works with its slice; gradients are zero elsewhere and partial
/// sums throughout, the bias counted once.
/// Example: 4 ranks in 2 x 2, `Sharding{{-2, -1}, {2, 2}}`, [rows, 6 features] to [rows, 4 features] with `both`: rank
/// (r, f) hands in its rows and 3 features and gets the same rows and 2 features.
/// Cost: the agreement and, among the ranks that share the same cells, one all-reduce of the outputs (`input`), one of the
/// input's cotangents (`output`), or one all-gather one way and one reduce-scatter the other (`both`).
class LinearImpl : public detail::StatefulModule<LinearImpl, detail::SplitLayer> {
 public:
  /// Collective. @param sharding the cut axes of the side that is cut, with the feature axis among them; for `output`
  /// those of the result @param feature_axis counted from the last, as -1
  /// @throws `BadSharding`, `CutsMismatch` when `output_cuts` do not fit
  LinearImpl(torch::nn::LinearOptions const& options, SplitOptions const& split, Domain const& domain,
             Sharding const& sharding, std::int64_t feature_axis = -1);

  /// Collective. @throws `ShapeMismatch`, `StructureDisagreement`, `GradModeDisagreement`, `CallOrderDisagreement`, on all
  /// ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

  torch::nn::LinearOptions options;
  torch::Tensor weight;
  torch::Tensor bias;

 private:
  std::int64_t feature_axis_;
};
TORCH_MODULE(Linear);

}  // namespace graticule::nn
