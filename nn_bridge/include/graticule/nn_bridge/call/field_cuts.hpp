// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/cuts.hpp>

namespace graticule::nn {

/// Where the rows and columns of a domain's fields are cut.
struct FieldCuts {
  Cuts rows;
  Cuts columns;
};

/// The cuts of one axis, and the part that this rank holds.
struct AxisPart {
  Cuts cuts;
  int part = 0;
  [[nodiscard]] Index lo() const noexcept { return cuts.lo(part); }
  [[nodiscard]] Index size() const noexcept { return cuts.size(part); }
  [[nodiscard]] Index extent() const noexcept { return cuts.extent(); }
};

/// The rows and columns of the globe that this rank holds.
struct FieldPart {
  AxisPart rows;
  AxisPart columns;
};

}  // namespace graticule::nn
