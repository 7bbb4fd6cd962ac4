// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spectral/fourier.hpp>

#include "fourier_map.hpp"
#include "transform_state.hpp"

namespace graticule::nn {

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
  if (options.in_channels < 1 || options.out_channels < 1)
    throw Error("ShapeMismatch", "FourierConvolution needs at least 1 channel in and out, got " +
                                     std::to_string(options.in_channels) + " and " +
                                     std::to_string(options.out_channels));
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
