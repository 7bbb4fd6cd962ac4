// SPDX-License-Identifier: BSD-3-Clause
// The table of padding modes.
#pragma once

#include <graticule/halo/boundary.hpp>
#include <graticule/nn_bridge/stencil/padding.hpp>
#include <graticule/partition/detail/enum_table.hpp>

#include <optional>

namespace graticule::nn {

namespace detail {

struct PadModeRow {
  char const* name = nullptr;
  std::optional<Edge> edge = std::nullopt;  ///< none: the domain's
};

}  // namespace detail

[[nodiscard]] constexpr detail::PadModeRow enum_row(PadMode mode) noexcept {
  switch (mode) {
    case PadMode::constant: return {"constant", Edge::constant};
    case PadMode::reflect: return {"reflect", Edge::reflect};
    case PadMode::replicate: return {"replicate", Edge::replicate};
    case PadMode::circular: return {"circular", Edge::periodic};
    case PadMode::domain: return {"domain"};
  }
  return {};
}

}  // namespace graticule::nn
