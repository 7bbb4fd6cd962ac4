// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>

#include "spherical_map.hpp"
#include "transform_state.hpp"

#include <algorithm>
#include <cmath>

namespace graticule::nn {

/// The transforms of the input's layout and of the output's.
struct detail::SphericalConvolutionSetUp {
  std::shared_ptr<SphericalMap const> in;
  std::shared_ptr<SphericalMap const> out;
};

namespace {

using detail::SphericalConvolutionSetUp;

/// Coefficients of both grids: no more degrees than either has.
Index num_degrees(SphericalConvolutionOptions const& o) {
  if (!o.out) return detail::num_degrees_of(o.num_degrees, o.rows);
  auto const wanted = o.num_degrees > 0 ? o.num_degrees : std::min(o.rows.num_degrees, o.out->rows.num_degrees);
  (void)detail::num_degrees_of(wanted, o.rows);
  return detail::num_degrees_of(wanted, o.out->rows);
}

detail::Truncation truncation(SphericalConvolutionOptions const& o, Index num_columns) {
  auto const found = detail::truncation_of({num_degrees(o), o.num_orders}, o.rows, num_columns);
  if (!o.out) return found;
  if (o.num_orders > 0) return detail::truncation_of(found, o.out->rows, o.out->num_columns);
  return {found.num_degrees, std::min(found.num_orders, (o.out->num_columns + 1) / 2)};
}

std::shared_ptr<SphericalConvolutionSetUp const> make_set_up(SphericalConvolutionOptions const& o, Comm const& comm,
                                                             Layout const& fields,
                                                             torch::TensorOptions const& options) {
  auto const kept = truncation(o, fields.extent(1));
  auto const in = std::make_shared<detail::SphericalMap const>(comm, fields, o.rows, kept, options);
  if (!o.out) return std::make_shared<SphericalConvolutionSetUp const>(SphericalConvolutionSetUp{in, in});
  Layout const out(*fields.grid(), {detail::scaled_cuts(*fields.cuts(0), o.out->rows.num_rows()),
                                    detail::scaled_cuts(*fields.cuts(1), o.out->num_columns)});
  return std::make_shared<SphericalConvolutionSetUp const>(SphericalConvolutionSetUp{
      in, std::make_shared<detail::SphericalMap const>(comm, out, o.out->rows, kept, options)});
}

}  // namespace

SphericalConvolutionImpl::SphericalConvolutionImpl(SphericalConvolutionOptions given, Domain const& domain)
    : CommunicatingModule(domain, "SphericalConvolution"), options(std::move(given)) {
  detail::check_num_channels("SphericalConvolution", options.in_channels, options.out_channels);
  reset();
}

void SphericalConvolutionImpl::reset() {
  auto const deviation = std::sqrt(0.5 / double(options.in_channels));
  weight = register_parameter(
      "weight", deviation * torch::randn({options.in_channels, options.out_channels, num_degrees(options), 2}));
  bias =
      register_parameter("bias", options.bias ? torch::zeros({options.out_channels}) : torch::Tensor(), options.bias);
}

void SphericalConvolutionImpl::check(torch::Tensor const& x) const {
  detail::check_spectral_dtype("SphericalConvolution", x);
  if (x.dim() < 3 || x.size(-3) != options.in_channels)
    throw Error("ShapeMismatch",
                "SphericalConvolution takes [..., " + std::to_string(options.in_channels) +
                    " channels, rows, columns], not " +
                    (x.dim() < 3 ? std::to_string(x.dim()) + " axes" : std::to_string(x.size(-3)) + " channels"));
  if (x.scalar_type() != weight.scalar_type())
    throw Error("ShapeMismatch", c10::str("SphericalConvolution has weights of ", weight.scalar_type(),
                                          ", got a tensor of ", x.scalar_type()));
}

torch::Tensor SphericalConvolutionImpl::forward(torch::Tensor const& x) {
  auto const make = [&](Layout const& layout) {
    return make_set_up(options, domain().comm(), layout, x.options().requires_grad(false));
  };
  bool const parameter_grad = detail::needs_gradient(weight) || detail::needs_gradient(bias);
  auto const call = enter(
      x, [&] { check(x); }, make, parameter_grad);
  // Where the parameters alone want gradients, the way to the coefficients needs no backward.
  auto const c = call.set_up->in->analyse(x, {detail::anchor(call.input_grad, x.options()), state()});
  auto const products = torch::einsum("...ilm,iol->...olm", {c, torch::view_as_complex(weight)});
  auto const y = call.set_up->out->synthesise(products, {call.anchor, state()});
  return bias.defined() ? y + bias.view({-1, 1, 1}) : y;
}

}  // namespace graticule::nn
