// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spectral/fourier.hpp>

#include "move/whole_columns.hpp"
#include "transform_state.hpp"

namespace graticule::nn {

namespace detail {

namespace {

struct FourierModes {
  FourierAxes axes = FourierAxes::columns;
  FourierNorm norm = FourierNorm::backward;
  Index num_waves = 0;  ///< 0: all
};

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

/// Waves kept of those that `num_columns` have. @throws `BadOption`
Index num_waves_of(Index wanted, Index num_columns) {
  auto const all = num_columns / 2 + 1;
  if (wanted < 0 || wanted > all || num_columns < 1)
    throw Error("BadOption", "truncation: waves of " + std::to_string(num_columns) + " columns must be in [0, " +
                                 std::to_string(all) + "], got " + std::to_string(wanted));
  return wanted > 0 ? wanted : all;
}

/// Cuts of the spectra's rows, or of their waves, and this rank's part.
AxisPart spectral_part(Comm const& comm, Layout const& fields, FourierModes const& modes) {
  if (modes.axes == FourierAxes::rows_and_columns)
    return {balanced_cuts(num_waves_of(modes.num_waves, fields.extent(1)), comm.num_ranks()), comm.rank()};
  auto const lines = lines_of(fields);
  return {*lines.cuts(0), int(lines.grid()->coords(comm.rank())[0])};
}

}  // namespace

/// Fourier transforms of fields of one layout, and back. Immutable, so that a graph may outlive its layer.
class FourierMap {
 public:
  /// Collective. @param fields rows and columns over a grid of all ranks @throws `BadOption` on all ranks alike
  FourierMap(Comm const& comm, Layout fields, FourierModes const& modes);

  [[nodiscard]] Layout const& fields() const noexcept { return fields_; }
  [[nodiscard]] AxisPart const& part() const noexcept { return part_; }

  /// This rank's field [..., rows, columns] to its spectrum, and back; collective.
  [[nodiscard]] torch::Tensor analyse(torch::Tensor const& x, CallTies const& ties) const;
  [[nodiscard]] torch::Tensor synthesise(torch::Tensor const& spectrum, CallTies const& ties) const;

 private:
  Layout fields_;
  FourierModes modes_;
  AxisPart part_;
  std::shared_ptr<TensorMove const> to_columns_;  ///< null where longitude is not cut
  std::shared_ptr<TensorMove const> to_waves_;    ///< null on one rank, or where rows are not transformed
};

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

}  // namespace detail

using detail::FourierMap;

namespace {

detail::FourierModes modes_of(FourierTransformOptions const& o) { return {o.axes, o.norm, o.num_waves}; }

Sharding spectra_of(FourierTransformOptions const& o, Comm const& comm) {
  return {{o.axes == FourierAxes::columns ? -2 : -1}, ProcessGrid{comm.num_ranks()}};
}

}  // namespace

class detail::FourierTransformState : public TransformState<FourierMap> {
 public:
  FourierTransformState(Domain const& domain, FourierTransformOptions const& options)
      : TransformState(domain, {.layer = "FourierTransform",
                                .spectra = spectra_of(options, domain.comm()),
                                .fields = options.field,
                                .make = [comm = domain.comm(), modes = modes_of(options)](Layout const& layout,
                                                                                          torch::Tensor const&) {
                                  return std::make_shared<FourierMap const>(comm, layout, modes);
                                }}) {}
};

FourierTransformImpl::FourierTransformImpl(FourierTransformOptions options, Domain domain)
    : StatefulModule(std::move(domain), detail::state_maker<detail::FourierTransformState>(options)),
      options_(std::move(options)) {
  if (auto const& field = options_.field) {
    (void)Layout(this->domain().grid(), {field->rows, field->columns});
    (void)detail::num_waves_of(options_.num_waves, field->columns.extent());
  }
}

torch::Tensor FourierTransformImpl::forward(torch::Tensor const& x) { return state().forward(x); }

torch::Tensor FourierTransformImpl::inverse(torch::Tensor const& spectrum) {
  return state().inverse(spectrum, [&]() -> std::array<Index, 2> {
    auto const fields = state().fields();
    auto const own = part().size();
    if (options_.axes == FourierAxes::columns) return {own, detail::num_waves_of(options_.num_waves, fields.extent(1))};
    return {fields.extent(0), own};
  });
}

AxisPart FourierTransformImpl::part() const {
  return detail::spectral_part(domain().comm(), state().fields(), modes_of(options_));
}

FourierConvolutionImpl::FourierConvolutionImpl(FourierConvolutionOptions given, Domain const& domain)
    : CommunicatingModule(domain, "FourierConvolution"), options(given) {
  detail::check_num_channels("FourierConvolution", options.in_channels, options.out_channels);
  if (options.row_modes < 1 || options.column_modes < 1)
    throw Error("BadOption", "truncation: FourierConvolution needs at least 1 mode along either axis, got " +
                                 std::to_string(options.row_modes) + " x " + std::to_string(options.column_modes));
  reset();
}

void FourierConvolutionImpl::reset() {
  auto const scale = 1 / double(options.in_channels * options.out_channels);
  std::vector<std::int64_t> const sizes{options.in_channels, options.out_channels, options.row_modes,
                                        options.column_modes, 2};
  weights1 = register_parameter("weights1", scale * torch::rand(sizes));
  weights2 = register_parameter("weights2", scale * torch::rand(sizes));
}

void FourierConvolutionImpl::check(torch::Tensor const& x) const {
  detail::check_spectral_dtype("FourierConvolution", x);
  if (x.dim() < 3 || x.size(-3) != options.in_channels || x.scalar_type() != weights1.scalar_type())
    throw Error("ShapeMismatch",
                c10::str("FourierConvolution of ", weights1.scalar_type(), " takes [..., ", options.in_channels,
                         ", rows, columns], not ", x.scalar_type(), " ", x.sizes()));
}

torch::Tensor FourierConvolutionImpl::forward(torch::Tensor const& x) {
  auto const make = [&](Layout const& layout) {
    if (2 * options.row_modes > layout.extent(0))
      throw Error("BadOption", "truncation: modes along " + std::to_string(layout.extent(0)) +
                                   " rows must be at most half of them, of either sign, got " +
                                   std::to_string(options.row_modes));
    return std::make_shared<FourierMap const>(
        domain().comm(), layout,
        detail::FourierModes{FourierAxes::rows_and_columns, options.norm, options.column_modes});
  };
  auto const call = enter(
      x, [&] { check(x); }, make, weights1.requires_grad() || weights2.requires_grad());
  // Where the parameters alone want gradients, the way to the spectrum needs no backward.
  auto const spectrum = call.set_up->analyse(x, {detail::anchor(call.input_grad, x.options()), state()});
  auto const& own = call.set_up->part();
  auto const modes = options.row_modes;
  auto const mixed = [&](torch::Tensor const& part, torch::Tensor const& weights) {
    auto const matrices = torch::view_as_complex(weights).narrow(-1, own.lo(), own.size());
    return torch::einsum("...ixy,ioxy->...oxy", {part, matrices});
  };
  auto const low = mixed(spectrum.narrow(-2, 0, modes), weights1);
  auto const high = mixed(spectrum.narrow(-2, spectrum.size(-2) - modes, modes), weights2);
  auto sizes = low.sizes().vec();
  sizes[sizes.size() - 2] = spectrum.size(-2) - 2 * modes;
  auto const products = torch::cat({low, torch::zeros(sizes, low.options().requires_grad(false)), high}, -2);
  return call.set_up->synthesise(products, {call.anchor, state()});
}

}  // namespace graticule::nn
