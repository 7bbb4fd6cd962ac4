// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/field_cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <optional>

namespace graticule::nn {

namespace detail {
class FourierMap;
class FourierTransformState;
}  // namespace detail

/// Axes of a transform.
enum class FourierAxes : std::uint8_t {
  columns,           ///< `torch::fft::rfft` along longitude
  rows_and_columns,  ///< `torch::fft::rfft2`
};

/// The divisor of the forward transform, which the inverse undoes; names as in LibTorch.
enum class FourierNorm : std::uint8_t {
  backward,  ///< nothing
  ortho,     ///< the root of the number of cells
  forward,   ///< the number of cells
};

/// Options of `FourierTransform`.
struct FourierTransformOptions {
  FourierAxes axes = FourierAxes::columns;
  FourierNorm norm = FourierNorm::backward;
  /// Number of zonal wavenumbers 0, 1, ... that are kept; 0: all columns / 2 + 1. The inverse takes the others as zero.
  Index num_waves = 0;
  /// Cuts of the fields, for an inverse before any forward. Default: those of the latest forward.
  std::optional<FieldCuts> field = {};
};

/// Discrete Fourier transform of sharded real fields along longitude, or along both axes, and back: LibTorch's `rfft`,
/// `irfft`, `rfft2`, `irfft2` of the whole field.
///
/// Spectra are complex [..., rows, waves] and are not moved back to the fields' cuts. `columns`: waves are whole and
/// rows are cut as in the fields; if longitude is cut, each band of rows is divided among the ranks that share it.
/// `rows_and_columns`: rows, in the order of `rfft2`, are whole, and waves are cut into balanced parts, part r on rank
/// r. Differentiable to any order.
/// Cost: one small all-reduce; `columns`: no message if longitude is whole, otherwise the field is moved once each way;
/// `rows_and_columns`: the spectrum is moved additionally.
class FourierTransformImpl : public detail::StatefulModule<FourierTransformImpl, detail::FourierTransformState> {
 public:
  /// The same options on all ranks.
  FourierTransformImpl(FourierTransformOptions options, Domain domain);

  /// Collective. @param x [..., rows, columns] of f32 or f64, this rank's shard
  /// @throws `UnsupportedTensor`, `BadOption` for more waves than columns / 2 + 1, `BadCuts`, and what all
  ///         layers throw (docs/layers.md), on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// Collective. @param spectrum this rank's part, as returned by `forward`
  /// @throws `WrongState` before any forward without `field`, `UnsupportedTensor`, `ShapeMismatch`, on all ranks alike
  torch::Tensor inverse(torch::Tensor const& spectrum);

  /// The cuts of spectra: of rows for `columns`, of waves for `rows_and_columns`. @throws `WrongState`
  [[nodiscard]] AxisPart part() const;

 private:
  FourierTransformOptions options_;
};
TORCH_MODULE(FourierTransform);

/// Options of `FourierConvolution`.
struct FourierConvolutionOptions {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  Index row_modes = 0;     ///< number n of wavenumbers kept along rows, of either sign: 0 .. n-1 and -n .. -1
  Index column_modes = 0;  ///< number n of wavenumbers kept along columns: 0 .. n-1
  FourierNorm norm = FourierNorm::backward;
};

/// Spectral convolution of Fourier neural operators: multiplies each of the lowest modes of the field's `rfft2` by a
/// complex matrix over channels, and transforms back. All other modes are zero in the output.
///
/// Parameters: `weights1` [in_channels, out_channels, row_modes, column_modes, 2] for wavenumbers 0 .. n-1 along rows,
/// `weights2` for -n .. -1, real and imaginary part last; names and starting values (uniform in [0, 1 / (in out))) as
/// in Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations" (2021). All ranks hold whole,
/// equal parameters; gradients are partial sums. Rows are treated as periodic; for a globe prefer
/// `SphericalConvolution`.
/// Cost: a transform and its inverse for the modes kept; products are distributed over the ranks by column modes.
class FourierConvolutionImpl : public CommunicatingModule<FourierConvolutionImpl, detail::FourierMap> {
 public:
  /// The same options on all ranks. @throws `ShapeMismatch` without channels, `BadOption` without modes
  FourierConvolutionImpl(FourierConvolutionOptions options, Domain const& domain);

  /// Collective. @param x [..., in_channels, rows, columns] of the weights' dtype, f32 or f64, this rank's shard
  /// @return [..., out_channels, rows, columns], cut as `x`
  /// @throws `BadOption` for more modes than rows / 2 or columns / 2 + 1, `UnsupportedTensor`, `ShapeMismatch`, and
  ///         what all layers throw, on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  void reset() override;

  FourierConvolutionOptions options;
  torch::Tensor weights1;
  torch::Tensor weights2;

 private:
  void check(torch::Tensor const& x) const;
};
TORCH_MODULE(FourierConvolution);

}  // namespace graticule::nn
