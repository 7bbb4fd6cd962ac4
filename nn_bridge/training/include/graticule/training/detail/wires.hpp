// SPDX-License-Identifier: BSD-3-Clause
// The table of types in messages.
#pragma once

#include <graticule/partition/detail/enum_table.hpp>
#include <graticule/training/data_parallel/gradient_wire.hpp>

namespace graticule::training {

namespace detail {

struct WireRow {
  char const* name = nullptr;
  bool of_gradients = false;  ///< one of `DataParallel`, too, and not of `Daso` alone
};

}  // namespace detail

[[nodiscard]] constexpr detail::WireRow enum_row(Wire wire) noexcept {
  switch (wire) {
    case Wire::own: return {"own", true};
    case Wire::bf16: return {"bf16", true};
    case Wire::f16: return {"f16", true};
    case Wire::f32: return {"f32", false};
    case Wire::automatic: return {"automatic", false};
  }
  return {};
}

}  // namespace graticule::training
