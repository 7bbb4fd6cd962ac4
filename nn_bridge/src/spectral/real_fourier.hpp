// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace graticule::nn::detail {

/// `torch::fft::rfft` and `irfft` along the last axis, also of tensors without lines, which LibTorch refuses; the
/// spectrum is cut off after `num_waves` wavenumbers, and filled up with zeros.
[[nodiscard]] torch::Tensor real_fourier(torch::Tensor const& x, std::int64_t num_waves, std::string const& norm);
[[nodiscard]] torch::Tensor inverse_real_fourier(torch::Tensor const& waves, std::int64_t num_columns,
                                                 std::string const& norm);

/// @throws `UnsupportedTensor` unless `x` is dense and of f32 or f64 (`complex`: of complex f32 or f64)
void check_spectral_dtype(std::string const& layer, torch::Tensor const& x, bool complex = false);

}  // namespace graticule::nn::detail
