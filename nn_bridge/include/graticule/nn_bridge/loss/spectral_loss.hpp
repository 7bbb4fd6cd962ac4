// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace graticule::nn {

namespace detail {
class SpectralLossState;
}

enum class SpectralError : std::uint8_t { squared, absolute };

struct SpectralOptions {
  SpectralError error = SpectralError::squared;
  /// One weight for each zonal wavenumber 0 to columns / 2; none: 1.
  std::vector<double> wavenumber_weights = {};
};

/// Error of the amplitudes of waves along each row: sum w v_k f(|P_k| - |T_k|) / sum w v_k over rows and wavenumbers k.
///
/// The amplitude is that of the wave: a row a cos(k x + phase) has amplitude a at k and 0 elsewhere; k = 0 is the mean.
/// Phases count nothing, so that a sharp field at the wrong place costs less than a smooth one. Rows whose target holds
/// a NaN count on neither side. Where longitude is cut, rows are moved to whole ones and shared by all ranks.
/// Weights, reductions, value and errors otherwise as for `LossModule`; gradients are 0 where an amplitude is 0.
/// Cost: two transforms of each row, and two repartitions (one in the backward) where longitude is cut
class SpectralLossImpl : public detail::StatefulModule<SpectralLossImpl, detail::SpectralLossState> {
 public:
  /// Collective. @throws `BadWeights`
  explicit SpectralLossImpl(Domain const& domain, LossOptions options = {}, SpectralOptions spectral = {});

  /// Collective. @param prediction [batch, channels, ..., rows, columns] @param target the same sizes
  /// @throws what `LossModule` throws, `WeightLength` for wavenumbers, too
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target);

 private:
  LossOptions options_;
  SpectralOptions spectral_;
};
TORCH_MODULE(SpectralLoss);

}  // namespace graticule::nn
