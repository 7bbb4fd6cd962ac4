// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/detail/cells.hpp>
#include <graticule/models/grid.hpp>
#include <graticule/partition/comm.hpp>

#include "scores.hpp"

#include <memory>
#include <span>
#include <vector>

namespace graticule::forecasting {

/// Power of fields by wavenumber, on shards.
class Spectra {
 public:
  /// Collective. The cells must outlive this.
  Spectra(Comm const& domain, models::Cells const& cells);
  ~Spectra();
  Spectra(Spectra const&) = delete;
  Spectra& operator=(Spectra const&) = delete;

  /// Power of a field by total wavenumber (degree) on the whole sphere: the sum over orders of |c(l, m)|^2 / (4 pi),
  /// which adds to the mean square. Empty on latitudes without a quadrature rule. Collective over the domain.
  /// @param fields [field][row][column] without missing values
  [[nodiscard]] std::vector<std::vector<double>> spherical(std::span<double const> fields, Index num_fields);
  /// Power by zonal wavenumber, averaged over the rows from `south` to `north` degrees by area, which adds to their
  /// mean square; 0 where there are none. Collective.
  [[nodiscard]] std::vector<std::vector<double>> zonal(std::span<double const> fields, Index num_fields, double south,
                                                       double north);
  /// The same for each region: [region][field][wave]. Collective.
  [[nodiscard]] std::vector<std::vector<std::vector<double>>> zonal(std::span<double const> fields, Index num_fields,
                                                                    std::vector<Region> const& regions);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule::forecasting
