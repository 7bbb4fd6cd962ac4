// SPDX-License-Identifier: BSD-3-Clause
#include "real_fourier.hpp"

#include <graticule/partition/error.hpp>

namespace graticule::nn::detail {

torch::Tensor real_fourier(torch::Tensor const& x, std::int64_t num_waves, std::string const& norm) {
  if (x.numel() > 0) return torch::fft_rfft(x, {}, -1, norm).narrow(-1, 0, num_waves);
  auto const empty = x.narrow(-1, 0, num_waves);
  return torch::complex(empty, empty);
}

torch::Tensor inverse_real_fourier(torch::Tensor const& waves, std::int64_t num_columns, std::string const& norm) {
  if (waves.numel() > 0) return torch::fft_irfft(waves, num_columns, -1, norm);
  auto sizes = waves.sizes().vec();
  sizes.back() = num_columns;
  return torch::real(waves).sum(-1, true).expand(sizes);
}

void check_spectral_dtype(std::string const& layer, torch::Tensor const& x, bool complex) {
  bool const good = x.defined() && x.layout() == torch::kStrided &&
                    (complex ? x.scalar_type() == torch::kComplexFloat || x.scalar_type() == torch::kComplexDouble
                             : x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kDouble);
  if (!good)
    throw Error("UnsupportedTensor", layer + " of " + (x.defined() ? c10::toString(x.scalar_type()) : "no tensor") +
                                         ": dense tensors of " + (complex ? "complex " : "") +
                                         "f32 or f64 are required");
}

}  // namespace graticule::nn::detail
