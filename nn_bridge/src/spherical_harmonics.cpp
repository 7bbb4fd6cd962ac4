// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spherical_harmonics.hpp>

#include "layer_state.hpp"
#include "spherical_map.hpp"

#include <sstream>
#include <utility>

namespace graticule::nn {

namespace {

using MapPointer = std::shared_ptr<detail::SphericalMap const>;

std::string text_of(Cuts const& cuts) {
  std::ostringstream text;
  text << at::IntArrayRef(cuts.sizes());
  return text.str();
}

void check_cuts(Layout const& layout, std::optional<FieldCuts> const& wanted) {
  if (!wanted || (*layout.cuts(0) == wanted->rows && *layout.cuts(1) == wanted->columns)) return;
  throw Error("CutsMismatch", "SphericalTransform with rows " + text_of(wanted->rows) + " and columns " +
                                  text_of(wanted->columns) + " given " + text_of(*layout.cuts(0)) + " and " +
                                  text_of(*layout.cuts(1)));
}

}  // namespace

struct SphericalTransformImpl::State : detail::LayerState<detail::SphericalMap> {
  State(Domain const& domain, SphericalTransformOptions given)
      : LayerState(domain, "SphericalTransform"),
        options(std::move(given)),
        inverse(domain, "SphericalTransform inverse", Sharding{{-1}, ProcessGrid{domain.comm().num_ranks()}}) {}

  /// Collective. @param like for its device and precision
  [[nodiscard]] MapPointer make(Layout const& layout, torch::Tensor const& like) const {
    auto const type = c10::toRealValueType(like.scalar_type());
    return std::make_shared<detail::SphericalMap const>(domain().comm(), layout, options.rows,
                                                        detail::Truncation{options.num_degrees, options.num_orders},
                                                        torch::dtype(type).device(like.device()));
  }
  [[nodiscard]] Cuts orders() const {
    if (latest) return latest->orders();
    if (!options.field)
      throw Error("NoForward", "orders of SphericalTransform are known after the first forward, or from given cuts");
    auto const truncation =
        detail::truncation_of({options.num_degrees, options.num_orders}, options.rows, options.field->columns.extent());
    return detail::cuts_of_orders(truncation, domain().comm().num_ranks());
  }

  SphericalTransformOptions options;
  detail::Agreement inverse;
  MapPointer latest;       ///< of forward
  MapPointer for_inverse;  ///< may be of another precision
  std::optional<std::pair<torch::ScalarType, torch::Device>> inverse_like;
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
  auto const check = [&] {
    detail::check_spectral_dtype("SphericalTransform", x);
    if (x.dim() < 2) throw Error("ShapeMismatch", "SphericalTransform takes [..., rows, columns]");
  };
  auto const call = state_->enter(x, check, [&](Layout const& layout) {
    check_cuts(layout, options_.field);
    return state_->make(layout, x);
  });
  if (state_->latest != call.set_up) {
    state_->latest = call.set_up;
    state_->for_inverse = nullptr;
    state_->inverse.reset();  // A rank's coefficients may have the same sizes as before while others' have not.
  }
  return call.set_up->analyse(x, {call.anchor, [&](torch::Tensor const& y) { (void)state_->record(y); }});
}

torch::Tensor SphericalTransformImpl::inverse(torch::Tensor const& c) {
  auto const check = [&] {
    detail::check_spectral_dtype("SphericalTransform inverse", c, true);
    auto const own = orders();
    auto const degrees = detail::num_degrees_of(options_.num_degrees, options_.rows);
    std::ostringstream text;
    text << "SphericalTransform inverse takes [..., " << degrees << ", " << own.size() << "], not " << c.sizes();
    if (c.dim() < 2 || c.size(-2) != degrees || c.size(-1) != own.size()) throw Error("ShapeMismatch", text.str());
  };
  auto const agreed = state_->inverse.agree(c, check);
  std::pair const like(c.scalar_type(), c.device());
  if (!state_->for_inverse || state_->inverse_like != like) {
    auto const& field = options_.field;
    state_->for_inverse =
        state_->make(field ? Layout(domain_.grid(), {field->rows, field->columns}) : state_->latest->fields(), c);
    state_->inverse_like = like;
  }
  return state_->for_inverse->synthesise(c, {detail::anchor(agreed.requires_grad, c.options()),
                                             [&](torch::Tensor const& y) { state_->inverse.record(y); }});
}

AxisPart SphericalTransformImpl::orders() const { return {state_->orders(), domain_.comm().rank()}; }

void SphericalTransformImpl::reset_structure() {
  state_->reset_structure();
  state_->inverse.reset();
}

int SphericalTransformImpl::num_set_ups() const noexcept { return state_->num_set_ups(); }

}  // namespace graticule::nn
