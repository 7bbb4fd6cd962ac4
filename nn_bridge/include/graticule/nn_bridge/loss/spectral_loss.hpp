// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/nn_bridge/loss/options.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace graticule::nn {

namespace detail {
class SpectralLossState;
}

/// The error f of an amplitude.
enum class SpectralError : std::uint8_t { squared, absolute };

/// Options of `SpectralLoss`.
struct SpectralOptions {
  SpectralError error = SpectralError::squared;
  /// One weight per zonal wavenumber 0 to columns / 2. Empty: 1.
  std::vector<double> wavenumber_weights = {};
};

/// Error of the amplitudes of waves along each row: sum w v_k f(|P_k| - |T_k|) / sum w v_k over rows and wavenumbers k.
///
/// The amplitude is that of the wave: a row a cos(k x + phase) has amplitude a at k and 0 elsewhere; k = 0 is the mean.
/// Phases are ignored, so a sharp but displaced field costs less than a smooth one. Rows whose target contains NaN
/// enter neither sum nor divisor. If longitude is cut, whole rows are gathered and distributed over all ranks. Weights,
/// reductions, value and errors are otherwise those of all losses (`losses.hpp`); gradients are 0 where an amplitude is
/// 0. Cost: two transforms per row, and two repartitions (one in the backward) if longitude is cut
class SpectralLossImpl : public detail::StatefulModule<SpectralLossImpl, detail::SpectralLossState> {
 public:
  /// Collective. @throws `BadOption`
  explicit SpectralLossImpl(Domain const& domain, LossOptions options = {}, SpectralOptions spectral = {});

  /// Collective. @param prediction [batch, channels, ..., rows, columns] @param target the same sizes
  /// @throws as all losses; `ShapeMismatch` also for wavenumbers
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target);

 private:
  LossOptions options_;
  SpectralOptions spectral_;
};
TORCH_MODULE(SpectralLoss);

}  // namespace graticule::nn
