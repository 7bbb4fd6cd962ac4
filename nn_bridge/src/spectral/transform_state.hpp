// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>

#include "move/linear_operator.hpp"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace graticule::nn::detail {

/// @throws `UnsupportedTensor` unless `x` is dense and of f32 or f64 (`complex`: of complex f32 or f64)
inline void check_spectral_dtype(std::string const& layer, torch::Tensor const& x, bool complex = false) {
  bool const good = x.defined() && x.layout() == torch::kStrided &&
                    (complex ? x.scalar_type() == torch::kComplexFloat || x.scalar_type() == torch::kComplexDouble
                             : x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kDouble);
  if (!good)
    throw Error("UnsupportedTensor", layer + " of " + (x.defined() ? c10::toString(x.scalar_type()) : "no tensor") +
                                         ": dense tensors of " + (complex ? "complex " : "") +
                                         "f32 or f64 are required");
}

/// @throws `ShapeMismatch`
inline void check_num_channels(std::string const& layer, std::int64_t in_channels, std::int64_t out_channels) {
  if (in_channels < 1 || out_channels < 1)
    throw Error("ShapeMismatch", layer + " needs at least 1 channel in and out, got " + std::to_string(in_channels) +
                                     " and " + std::to_string(out_channels));
}

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

  /// Collective. @param x [..., rows, columns], this rank's shard
  [[nodiscard]] torch::Tensor forward(torch::Tensor const& x) {
    auto const check = [&] {
      check_spectral_dtype(this->layer(), x);
      if (x.dim() < 2) throw Error("ShapeMismatch", this->layer() + " takes [..., rows, columns]");
    };
    auto const call = this->enter(x, check, [&](Layout const& layout) {
      check_cuts(layout);
      return description_.make(layout, x);
    });
    if (latest_ != call.set_up) {
      latest_ = call.set_up;
      for_inverse_ = nullptr;
      inverse_.reset();  // A rank's spectra may have the same sizes as before while others' have not.
    }
    return call.set_up->analyse(x, {call.anchor, *this});
  }

  /// Collective. @param sizes gives the last two sizes that this rank's spectrum `c` must have
  [[nodiscard]] torch::Tensor inverse(torch::Tensor const& c, std::function<std::array<Index, 2>()> const& sizes) {
    auto const agreed = inverse_.agree(c, [&] {
      require_fields();
      check_spectral_dtype(inverse_.layer(), c, true);
      auto const wanted = sizes();
      if (c.dim() < 2 || c.size(-2) != wanted[0] || c.size(-1) != wanted[1])
        throw Error("ShapeMismatch",
                    c10::str(inverse_.layer(), " takes [..., ", wanted[0], ", ", wanted[1], "], not ", c.sizes()));
    });
    std::pair const like(c.scalar_type(), c.device());
    if (!for_inverse_ || inverse_like_ != like) {
      for_inverse_ = description_.make(fields(), c);
      inverse_like_ = like;
    }
    return for_inverse_->synthesise(c, {detail::anchor(agreed.requires_grad, c.options()), inverse_});
  }

  /// Of the latest forward, or as given. @throws `WrongState`
  [[nodiscard]] Layout fields() const {
    require_fields();
    return latest_ ? latest_->fields() : given();
  }

 private:
  void require_fields() const {
    if (!latest_ && !description_.fields)
      throw Error("WrongState", description_.layer + " before any forward needs the cuts of the field");
  }
  /// @pre cuts were given
  [[nodiscard]] Layout given() const {
    return Layout(this->domain().grid(), {description_.fields->rows, description_.fields->columns});
  }
  void check_cuts(Layout const& layout) const {
    auto const& cuts = description_.fields;
    if (cuts && !(*layout.cuts(0) == cuts->rows && *layout.cuts(1) == cuts->columns))
      throw Error("BadCuts", this->layer() + " has cuts for " + to_string(given()) + ", got " + to_string(layout));
  }

  Description description_;
  Agreement inverse_;
  std::shared_ptr<Map const> latest_;       ///< of forward
  std::shared_ptr<Map const> for_inverse_;  ///< may be of another precision
  std::optional<std::pair<torch::ScalarType, torch::Device>> inverse_like_;
};

}  // namespace graticule::nn::detail
