// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace graticule::nn {

namespace detail {
class FourierMap;
class FourierTransformState;
}  // namespace detail

enum class FourierAxes : std::uint8_t {
  columns,           ///< `torch::fft::rfft` along longitude
  rows_and_columns,  ///< `torch::fft::rfft2`
};

/// What a forward transform divides by; the inverse undoes it. As LibTorch's names.
enum class FourierNorm : std::uint8_t {
  backward,  ///< nothing
  ortho,     ///< the root of the number of cells
  forward,   ///< the number of cells
};

struct FourierTransformOptions {
  FourierAxes axes = FourierAxes::columns;
  FourierNorm norm = FourierNorm::backward;
  /// Zonal wavenumbers 0, 1, ... that are kept; 0: all columns / 2 + 1. The inverse takes those left out for zeros.
  Index num_waves = 0;
  /// Of the fields; none: those of the latest forward. For an inverse before any forward.
  std::optional<FieldCuts> field = {};
};

/// Discrete Fourier transform of sharded real fields along longitude, or along both axes, and back: LibTorch's `rfft`,
/// `irfft`, `rfft2`, `irfft2` of the whole field.
///
/// Spectra are complex [..., rows, waves] and stay where the transform leaves them. `columns`: waves are whole and rows cut
/// as the fields' are, or, where longitude is cut, each band of rows shared out among the ranks that cut its columns.
/// `rows_and_columns`: rows, in the order of `rfft2`, are whole, and waves cut into balanced parts, part r on rank r.
/// Differentiable to any order.
/// Cost: one small all-reduce; `columns`: no message where longitude is not cut, else the field is moved once each way;
/// `rows_and_columns`: the spectrum is moved once more.
class FourierTransformImpl : public detail::StatefulModule<FourierTransformImpl, detail::FourierTransformState> {
 public:
  /// The same options on all ranks.
  FourierTransformImpl(FourierTransformOptions options, Domain domain);

  /// Collective. @param x [..., rows, columns] of f32 or f64, this rank's shard
  /// @throws `UnsupportedTensor`, `BadTruncation` for more waves than columns / 2 + 1, `CutsMismatch`, and what all
  ///         layers throw (docs/layers.md), on all ranks alike
  torch::Tensor forward(torch::Tensor const& x);

  /// Collective. @param spectrum this rank's part, as forward gives it
  /// @throws `NoForward` before any forward without `field`, `UnsupportedTensor`, `ShapeMismatch`, on all ranks alike
  torch::Tensor inverse(torch::Tensor const& spectrum);

  /// How spectra are cut: their rows for `columns`, their waves for `rows_and_columns`. @throws `NoForward`
  [[nodiscard]] AxisPart part() const;

 private:
  FourierTransformOptions options_;
};
TORCH_MODULE(FourierTransform);

struct FourierConvolutionOptions {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  Index row_modes = 0;     ///< lowest wavenumbers along rows that are kept, of either sign: 0 .. n-1 and -n .. -1
  Index column_modes = 0;  ///< lowest wavenumbers along columns that are kept: 0 .. n-1
  FourierNorm norm = FourierNorm::backward;
};

/// Spectral convolution of Fourier neural operators: the lowest modes of the field's `rfft2`, multiplied by a complex
/// matrix each that mixes channels, and transformed back; all other modes are absent from the output.
///
/// Parameters: `weights1` [in_channels, out_channels, row_modes, column_modes, 2] for wavenumbers 0 .. n-1 along rows,
/// `weights2` for -n .. -1, real and imaginary part last; names and starting values (uniform in [0, 1 / (in out))) as in
/// Li et al., "Fourier Neural Operator for Parametric Partial Differential Equations" (2021). They are the same on all
/// ranks, whole; gradients are partial sums. Rows count as periodic: on a globe, `SphericalConvolution` knows better.
/// Cost: that of a transform and its inverse of the modes kept; products are shared out over the ranks by columns' modes.
class FourierConvolutionImpl : public CommunicatingModule<FourierConvolutionImpl, detail::FourierMap> {
 public:
  /// The same options on all ranks. @throws `ShapeMismatch` without channels, `BadTruncation` without modes
  FourierConvolutionImpl(FourierConvolutionOptions options, Domain const& domain);

  /// Collective. @param x [..., in_channels, rows, columns] of the weights' dtype, f32 or f64, this rank's shard
  /// @return [..., out_channels, rows, columns], cut as `x`
  /// @throws `BadTruncation` for more modes than rows / 2 or columns / 2 + 1, `UnsupportedTensor`, `ShapeMismatch`, and
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
