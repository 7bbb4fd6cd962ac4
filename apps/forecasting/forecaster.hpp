// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/process_grid.hpp>

#include "description.hpp"

#include <memory>
#include <span>
#include <vector>

namespace graticule::forecast {

/// A trained network that steps the states of some members on this rank's box.
class Forecaster {
 public:
  /// Collective over the domain. @param checkpoint opened by the domain's ranks, or more
  /// @throws what `training::load_model` throws
  Forecaster(Comm const& domain, ProcessGrid const& grid, train::Cells const& cells, Checkpoint const& checkpoint,
             Comm const& checkpoint_comm, Description const& description,
             std::vector<std::vector<double>> const& statics);
  ~Forecaster();
  Forecaster(Forecaster const&) = delete;
  Forecaster& operator=(Forecaster const&) = delete;

  /// Begins with these members. @param states [member][time: present, earlier][prognostic channel][row][column] in
  /// units, NaN where missing: predictions of these cells are missing, too
  void start(std::span<double const> states, Index num_members);
  /// One lead from `time`. Collective over the domain.
  void step(Seconds time);
  /// All channels of a member: [channel][row][column] in units.
  [[nodiscard]] std::vector<double> present(Index member) const;

  /// The states, [member][channel][row][column], in the network's type, for a checkpoint. Contiguous, of this object.
  [[nodiscard]] FieldView states();
  [[nodiscard]] Index num_state_channels() const;

  /// Power of a field by total wavenumber (degree) on the whole sphere: the sum over orders of |c(l, m)|^2 / (4 pi),
  /// which adds to the mean square. Empty on latitudes without a quadrature rule. Collective over the domain.
  /// @param fields [field][row][column] without missing values
  [[nodiscard]] std::vector<std::vector<double>> spectra(std::span<double const> fields, Index num_fields);
  /// Power by zonal wavenumber, averaged over the rows from `south` to `north` degrees by area. Collective.
  [[nodiscard]] std::vector<std::vector<double>> zonal_spectra(std::span<double const> fields, Index num_fields,
                                                               double south, double north);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule::forecast
