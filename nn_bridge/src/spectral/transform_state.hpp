// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>

#include "move/whole_columns.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace graticule::nn::detail {

/// State of a layer that transforms fields to spectra and back by `Map`, which has `fields()`, `analyse` and
/// `synthesise`.
template <class Map>
class TransformState : public LayerState<Map> {
 public:
  struct Description {
    std::string layer;
    Sharding spectra;                 ///< the axes along which the ranks' spectra may differ
    std::optional<FieldCuts> fields;  ///< given cuts
    /// For fields of a layout; `like` has the device and the precision. Collective, throws on all ranks alike.
    std::function<std::shared_ptr<Map const>(Layout const&, torch::Tensor const& like)> make;
  };

  TransformState(Domain const& domain, Description description)
      : LayerState<Map>(domain, description.layer),
        description_(std::move(description)),
        inverse_(domain, description_.layer + " inverse", description_.spectra, this) {}

  /// Collective. @param check of the field
  [[nodiscard]] torch::Tensor forward(torch::Tensor const& x, std::function<void()> const& check) {
    auto const call = this->enter(x, check, [&](Layout const& layout) {
      check_cuts(layout);
      return description_.make(layout, x);
    });
    if (latest_ != call.set_up) {
      latest_ = call.set_up;
      for_inverse_ = nullptr;
      inverse_.reset();  // A rank's spectra may have the same sizes as before while others' have not.
    }
    return call.set_up->analyse(x, {call.anchor, [&](torch::Tensor const& y) { (void)this->record(y); }});
  }

  /// Collective. @param check of the spectrum
  [[nodiscard]] torch::Tensor inverse(torch::Tensor const& c, std::function<void()> const& check) {
    auto const agreed = inverse_.agree(c, [&] {
      require_fields();
      check();
    });
    std::pair const like(c.scalar_type(), c.device());
    if (!for_inverse_ || inverse_like_ != like) {
      for_inverse_ = description_.make(fields(), c);
      inverse_like_ = like;
    }
    return for_inverse_->synthesise(
        c, {detail::anchor(agreed.requires_grad, c.options()), [&](torch::Tensor const& y) { inverse_.record(y); }});
  }

  /// Of the latest forward, or as given. @throws `WrongState`
  [[nodiscard]] Layout fields() const {
    require_fields();
    if (latest_) return latest_->fields();
    return Layout(this->domain().grid(), {description_.fields->rows, description_.fields->columns});
  }

 private:
  void require_fields() const {
    if (!latest_ && !description_.fields)
      throw Error("WrongState", description_.layer + " before any forward needs the cuts of the field");
  }
  void check_cuts(Layout const& layout) const {
    auto const& given = description_.fields;
    if (given && !(*layout.cuts(0) == given->rows && *layout.cuts(1) == given->columns))
      throw Error("BadCuts", description_.layer + " has cuts for " +
                                 to_string(Layout(this->domain().grid(), {given->rows, given->columns})) + ", got " +
                                 to_string(layout));
  }

  Description description_;
  Agreement inverse_;
  std::shared_ptr<Map const> latest_;       ///< of forward
  std::shared_ptr<Map const> for_inverse_;  ///< may be of another precision
  std::optional<std::pair<torch::ScalarType, torch::Device>> inverse_like_;
};

}  // namespace graticule::nn::detail
