// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/stencil/resize.hpp>

#include "gated_model.hpp"

namespace graticule::models {

/// Grids of half the resolution each, which keep their poles and an even number of longitudes: rows on the poles need
/// an odd number of them (241, 121, 61, 31, 16), poles between rows an even one.
class Halvings {
 public:
  Halvings(std::int64_t num_rows, std::int64_t num_columns, Boundary const& boundary);

  /// Whether the present grid can be halved.
  [[nodiscard]] bool possible() const noexcept;
  /// A convolution of stride 2 to the next grid: a window of 3 centred on every second cell, or of 2 over each pair.
  /// @pre `possible()`
  [[nodiscard]] Convolution next(std::int64_t num_in, std::int64_t num_out, nn::Domain const& domain);

 private:
  /// The width of the windows along latitude, 0 for none.
  [[nodiscard]] std::int64_t window() const noexcept;

  std::int64_t num_rows_;
  std::int64_t num_columns_;
  AxisBoundary rows_;
};

/// Bilinear, following the domain's boundary; `forward_like` gives a finer grid's rows to their owners.
[[nodiscard]] nn::Resize bilinear(nn::Domain const& domain);

}  // namespace graticule::models
