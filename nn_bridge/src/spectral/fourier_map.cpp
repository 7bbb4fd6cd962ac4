// SPDX-License-Identifier: BSD-3-Clause
#include "fourier_map.hpp"

namespace graticule::nn::detail {

namespace {

std::string name_of(FourierNorm norm) {
  return norm == FourierNorm::backward ? "backward" : norm == FourierNorm::ortho ? "ortho" : "forward";
}

/// `torch::fft::rfft` along the last axis, cut off after `num_waves` wavenumbers; LibTorch refuses tensors without
/// lines.
torch::Tensor real_fourier(torch::Tensor const& x, std::int64_t num_waves, std::string const& norm) {
  if (x.numel() > 0) return torch::fft_rfft(x, {}, -1, norm).narrow(-1, 0, num_waves);
  auto const empty = x.narrow(-1, 0, num_waves);
  return torch::complex(empty, empty);
}

/// The inverse, with zeros for the other wavenumbers.
torch::Tensor inverse_real_fourier(torch::Tensor const& waves, std::int64_t num_columns, std::string const& norm) {
  if (waves.numel() > 0) return torch::fft_irfft(waves, num_columns, -1, norm);
  auto sizes = waves.sizes().vec();
  sizes.back() = num_columns;
  return torch::real(waves).sum(-1, true).expand(sizes);
}

/// Whole parallels as they lie after `move_to_whole_columns`.
Layout lines_of(Layout const& fields) { return fields.grid()->extent(1) > 1 ? whole_columns(fields) : fields; }

}  // namespace

AxisPart spectral_part(Comm const& comm, Layout const& fields, FourierModes const& modes) {
  if (modes.axes == FourierAxes::rows_and_columns)
    return {balanced_cuts(num_waves_of(modes.num_waves, fields.extent(1)), comm.num_ranks()), comm.rank()};
  auto const lines = lines_of(fields);
  return {*lines.cuts(0), int(lines.grid()->coords(comm.rank())[0])};
}

Index num_waves_of(Index wanted, Index num_columns) {
  auto const all = num_columns / 2 + 1;
  if (wanted < 0 || wanted > all || num_columns < 1)
    throw Error("BadOption", "truncation: waves of " + std::to_string(num_columns) + " columns must be in [0, " +
                                 std::to_string(all) + "], got " + std::to_string(wanted));
  return wanted > 0 ? wanted : all;
}

FourierMap::FourierMap(Comm const& comm, Layout fields, FourierModes const& modes)
    : fields_(std::move(fields)), modes_(modes), part_(spectral_part(comm, fields_, modes)) {
  modes_.num_waves = num_waves_of(modes.num_waves, fields_.extent(1));
  to_columns_ = move_to_whole_columns(comm, fields_);
  if (modes_.axes == FourierAxes::columns || comm.num_ranks() == 1) return;
  auto const lines = lines_of(fields_);
  to_waves_ =
      std::make_shared<TensorMove const>(comm, Layout(*lines.grid(), {*lines.cuts(0), Cuts{modes_.num_waves}}),
                                         cut_columns(fields_.extent(0), part_.cuts), std::vector<std::int64_t>{-2, -1});
}

torch::Tensor FourierMap::analyse(torch::Tensor const& x, CallTies const& ties) const {
  auto const norm = name_of(modes_.norm);
  auto const waves = real_fourier(ties.apply(to_columns_, Way::forward, x), modes_.num_waves, norm);
  if (modes_.axes == FourierAxes::columns) return waves;
  auto const whole = ties.apply(to_waves_, Way::forward, waves);
  // LibTorch transforms no tensor without elements.
  return whole.numel() > 0 ? torch::fft_fft(whole, {}, -2, norm) : whole;
}

torch::Tensor FourierMap::synthesise(torch::Tensor const& spectrum, CallTies const& ties) const {
  auto const norm = name_of(modes_.norm);
  auto waves = spectrum;
  if (modes_.axes == FourierAxes::rows_and_columns) {
    if (spectrum.numel() > 0) waves = torch::fft_ifft(spectrum, {}, -2, norm);
    waves = ties.apply(to_waves_, Way::adjoint, waves);
  }
  return ties.apply(to_columns_, Way::adjoint, inverse_real_fourier(waves, fields_.extent(1), norm));
}

}  // namespace graticule::nn::detail
