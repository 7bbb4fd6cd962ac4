// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace graticule::nn {

/// Sum over all ranks of `comm`; the backward is the identity, because every rank holds the whole sum.
///
/// This closes a globally normalised loss. Each rank then holds its partial gradient of a replicated parameter, and
/// partial gradients are summed over the domain (`GradientSync`). Collective. Cost: one all-reduce.
[[nodiscard]] torch::Tensor reduce_loss(torch::Tensor const& partial, Comm const& comm);

/// The same over the ranks of a domain, for the losses of its layers.
///
/// A call of the domain's layers that the result depends on through any rank's part is tied to it on all ranks, so that
/// the backward runs through it on every rank, also where a rank did not use the output. Other calls are left alone.
/// @throws `UnusedOnSomeRanks` on all ranks when another rank has thrown away such an output
[[nodiscard]] torch::Tensor reduce_loss(torch::Tensor const& partial, Domain const& domain);

enum class LossKind : std::uint8_t { squared, absolute };

/// Mean over the globe of the squared or absolute error, weighted by row, normalised by the global weight.
///
/// loss = sum w(row) f(prediction - target) / sum w(row) over all ranks, samples, channels and cells; cells whose target
/// is NaN (missing) count on neither side. The value is the same on all ranks and for all cuts, but for rounding.
/// Short for `MSELoss` and `L1Loss` of `losses.hpp`, which holds the other losses.
class AreaWeightedLossImpl : public torch::nn::Module {
 public:
  /// Collective. @param row_weights one weight per row of this rank's shard, see `latitude_weights`; none on all ranks: 1
  AreaWeightedLossImpl(LossKind kind, std::vector<double> row_weights, Domain domain);

  /// Collective. @param prediction [..., rows, columns] @param target the same shape
  /// @throws `ShapeMismatch`, `WeightLength`, `EmptyLoss` when no cell counts anywhere, on all ranks alike
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target);

 private:
  std::function<torch::Tensor(torch::Tensor const&, torch::Tensor const&)> loss_;
};
TORCH_MODULE(AreaWeightedLoss);

/// Area of each row of a latitude grid as a part of the sphere, from the cells' bounds: |sin(north) - sin(south)| / 2.
///
/// Bounds lie half way between neighboring latitudes; the outer rows end at the pole, so that they sum to 1 where the
/// grid reaches both poles by half a cell or less, and else half a spacing beyond the last row.
/// @param latitudes degrees north of all rows, strictly monotonic either way (`BadLatitudes`)
[[nodiscard]] std::vector<double> latitude_weights(std::span<double const> latitudes);

}  // namespace graticule::nn
