// SPDX-License-Identifier: BSD-3-Clause
#include "unit_order.hpp"

#include <algorithm>

namespace graticule::training::detail {

UnitOrder::UnitOrder(std::vector<FoundUnit> const& units, ShardedParametersOptions const& options)
    : units_(units.size()) {
  auto const place_of = [&](std::string const& name) {
    auto const found = std::find_if(units.begin(), units.end(), [&](auto const& unit) { return unit.name == name; });
    if (found == units.end())
      throw Error("UnknownName", "'" + name + "' is to be gathered ahead, or to gather others, and is no unit");
    return std::size_t(found - units.begin());
  };
  auto const read = [&](auto const& lists, Ahead Unit::*pass) {
    for (auto const& [name, ahead] : lists) {
      auto& places = (units_[place_of(name)].*pass).listed.emplace();
      for (auto const& other : ahead) places.push_back(place_of(other));
    }
  };
  read(options.ahead_in_forward, &Unit::in_forward);
  read(options.ahead_in_backward, &Unit::in_backward);
}

UnitOrder::Places UnitOrder::Ahead::places() const {
  if (listed) return *listed;
  return next ? Places{*next} : Places{};
}

UnitOrder::Places UnitOrder::begin_forward(std::size_t u) {
  if (last_forward_) units_[*last_forward_].in_forward.next = u;
  last_forward_ = u;
  return units_[u].in_forward.places();
}

void UnitOrder::end_forward(std::size_t u) {
  if (!units_[u].in_backward.next) units_[u].in_backward.next = last_ended_;
  last_ended_ = u;
}

UnitOrder::Places UnitOrder::begin_backward(std::size_t u) {
  if (last_backward_ && *last_backward_ != u) units_[*last_backward_].in_backward.next = u;
  last_backward_ = u;
  return units_[u].in_backward.places();
}

void UnitOrder::forget_forward() noexcept {
  last_forward_.reset();
  last_ended_.reset();
}

}  // namespace graticule::training::detail
