// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace graticule::nn::detail {

/// `torch::fft::rfft` and `irfft` along the last axis, also of tensors without lines, which LibTorch refuses; the spectrum
/// is cut off after `num_waves` wavenumbers, and filled up with zeros.
[[nodiscard]] torch::Tensor real_fourier(torch::Tensor const& x, std::int64_t num_waves, std::string const& norm);
[[nodiscard]] torch::Tensor inverse_real_fourier(torch::Tensor const& waves, std::int64_t num_columns,
                                                 std::string const& norm);

}  // namespace graticule::nn::detail
