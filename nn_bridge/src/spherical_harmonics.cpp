// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spherical_harmonics.hpp>

#include "real_fourier.hpp"
#include "spherical_map.hpp"
#include "transform_state.hpp"

#include <sstream>

namespace graticule::nn {

using detail::SphericalMap;

struct SphericalTransformImpl::State : detail::TransformState<SphericalMap> {
  State(Domain const& domain, SphericalTransformOptions const& options)
      : TransformState(domain,
                       {.layer = "SphericalTransform",
                        .spectra = {{-1}, ProcessGrid{domain.comm().num_ranks()}},
                        .fields = options.field,
                        .make = [comm = domain.comm(), options](Layout const& layout, torch::Tensor const& like) {
                          return std::make_shared<SphericalMap const>(
                              comm, layout, options.rows, detail::Truncation{options.num_degrees, options.num_orders},
                              torch::dtype(c10::toRealValueType(like.scalar_type())).device(like.device()));
                        }}) {}
};

SphericalTransformImpl::SphericalTransformImpl(SphericalTransformOptions options, Domain domain)
    : options_(std::move(options)), domain_(std::move(domain)) {
  (void)detail::num_degrees_of(options_.num_degrees, options_.rows);
  if (auto const& field = options_.field) {
    (void)Layout(domain_.grid(), {field->rows, field->columns});
    (void)detail::truncation_of({options_.num_degrees, options_.num_orders}, options_.rows, field->columns.extent());
  }
  reset();
}

void SphericalTransformImpl::reset() { state_ = std::make_shared<State>(domain_, options_); }

torch::Tensor SphericalTransformImpl::forward(torch::Tensor const& x) {
  return state_->forward(x, [&] {
    detail::check_spectral_dtype("SphericalTransform", x);
    if (x.dim() < 2) throw Error("ShapeMismatch", "SphericalTransform takes [..., rows, columns]");
  });
}

torch::Tensor SphericalTransformImpl::inverse(torch::Tensor const& c) {
  return state_->inverse(c, [&] {
    detail::check_spectral_dtype("SphericalTransform inverse", c, true);
    auto const own = orders();
    auto const degrees = detail::num_degrees_of(options_.num_degrees, options_.rows);
    std::ostringstream text;
    text << "SphericalTransform inverse takes [..., " << degrees << ", " << own.size() << "], not " << c.sizes();
    if (c.dim() < 2 || c.size(-2) != degrees || c.size(-1) != own.size()) throw Error("ShapeMismatch", text.str());
  });
}

AxisPart SphericalTransformImpl::orders() const {
  auto const truncation =
      detail::truncation_of({options_.num_degrees, options_.num_orders}, options_.rows, state_->fields().extent(1));
  return {detail::cuts_of_orders(truncation, domain_.comm().num_ranks()), domain_.comm().rank()};
}

void SphericalTransformImpl::reset_structure() { state_->reset_structure(); }

int SphericalTransformImpl::num_set_ups() const noexcept { return state_->num_set_ups(); }

}  // namespace graticule::nn
