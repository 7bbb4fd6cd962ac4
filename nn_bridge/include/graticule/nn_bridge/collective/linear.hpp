// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/collective/feature_split.hpp>

#include <torch/torch.h>

#include <cstdint>

namespace graticule::nn {

/// A linear layer whose input features, output features, or both are cut over ranks. If no feature is cut,
/// `torch::nn::Linear` needs no change.
///
/// Parameters are the serial ones, whole on every rank, so files, `GradientSync` and optimizers do not depend on the
/// cuts; weights are small compared with fields. Each rank uses its slice. Gradients are zero elsewhere and partial
/// sums throughout; the bias counts once.
/// Example: 4 ranks in 2 x 2, `Sharding{{-2, -1}, {2, 2}}`, [rows, 6 features] to [rows, 4 features] with `both`: rank
/// (r, f) passes its rows and 3 features and receives the same rows and 2 features.
/// Cost: the agreement and, among the ranks that share the same cells, one all-reduce of the outputs (`input`), one of
/// the input's cotangents (`output`), or one all-gather one way and one reduce-scatter the other (`both`).
class LinearImpl : public detail::StatefulModule<LinearImpl, detail::SplitLayer> {
 public:
  /// Collective. @param options LibTorch's @param split the features to cut @param domain the ranks that share a sample
  /// @param sharding the cut axes of the cut side, including the feature axis; for `output` those of the result
  /// @param feature_axis counted from the last, as -1
  /// @throws `BadOption`, `BadCuts` if `output_cuts` do not fit
  LinearImpl(torch::nn::LinearOptions const& options, SplitOptions const& split, Domain const& domain,
             Sharding const& sharding, std::int64_t feature_axis = -1);

  /// Collective. @throws `ShapeMismatch`, `StructureDisagreement`, `CallDisagreement`, on
  /// all ranks alike
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
