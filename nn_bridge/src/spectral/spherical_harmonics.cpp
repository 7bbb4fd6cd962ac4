// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>

#include "spherical_map.hpp"
#include "transform_state.hpp"

namespace graticule::nn {

using detail::SphericalMap;

class detail::SphericalTransformState : public TransformState<SphericalMap> {
 public:
  SphericalTransformState(Domain const& domain, SphericalTransformOptions const& options)
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
    : StatefulModule(std::move(domain), detail::state_maker<detail::SphericalTransformState>(options)),
      options_(std::move(options)) {
  (void)detail::num_degrees_of(options_.num_degrees, options_.rows);
  if (auto const& field = options_.field) {
    (void)Layout(this->domain().grid(), {field->rows, field->columns});
    (void)detail::truncation_of({options_.num_degrees, options_.num_orders}, options_.rows, field->columns.extent());
  }
}

torch::Tensor SphericalTransformImpl::forward(torch::Tensor const& x) { return state().forward(x); }

torch::Tensor SphericalTransformImpl::inverse(torch::Tensor const& c) {
  return state().inverse(c, [&]() -> std::array<Index, 2> {
    return {detail::num_degrees_of(options_.num_degrees, options_.rows), orders().size()};
  });
}

AxisPart SphericalTransformImpl::orders() const {
  auto const truncation =
      detail::truncation_of({options_.num_degrees, options_.num_orders}, options_.rows, state().fields().extent(1));
  return {detail::cuts_of_orders(truncation, domain().comm().num_ranks()), domain().comm().rank()};
}

}  // namespace graticule::nn
