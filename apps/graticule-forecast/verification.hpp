// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/writer.hpp>

#include "setup.hpp"
#include "spectra.hpp"
#include "spectra_table.hpp"

#include <span>
#include <string>
#include <vector>

namespace graticule::forecast {

/// Scores and spectra of all forecasts of a run, and the tables and pictures of them.
class Verification {
 public:
  /// Collective over all ranks.
  Verification(Setup const& setup, Outputs& outputs);

  /// The forecasts that follow are those of case `number`, from these fields.
  void begin_case(Index number, std::vector<double> initial);
  /// Scores a record where there is a truth. Collective over all ranks. @returns the mean of the members
  std::vector<double> score(Index number, std::span<double const> fields, std::vector<double> const& truth,
                            bool has_truth);
  /// Adds the spectra of some states, [state][channel][row][column] in units. Collective over all ranks.
  void add_spectra(Index number, SpectrumOf of, std::span<double const> states, Index num_states);
  void save(CheckpointWriter& writer) const;
  void load(Checkpoint const& checkpoint);

  [[nodiscard]] bool has_scores() const;
  [[nodiscard]] ScoreTable const& scores() const noexcept { return scores_; }
  /// spectra.nc: power by wavenumber(channel, region, lead). Collective.
  void write_spectra();
  /// scores.nc: metric(channel, region, lead). Collective.
  void write_scores();
  void draw_scores();
  /// By total wavenumber, or by zonal wavenumber on latitudes without a quadrature rule: the first and the last lead.
  void draw_spectra();
  void log_scores() const;

 private:
  /// All members of a channel on this rank's box. Collective over the teams.
  std::vector<double> all_members(std::span<double const> fields, std::size_t channel);
  /// Fills channels with missing values, on any rank, with 0. @return which; collective over the domain
  std::vector<Index> take_out_missing(std::vector<double>& fields);
  /// Coordinates channel, region and lead_time.
  void add_axes(FieldWriter& writer) const;
  /// @param num_regions 0: by total wavenumber, on the whole sphere
  void write_power(FieldWriter& writer, std::string const& name, SpectrumOf of, Index num_regions) const;

  Setup const& setup_;
  Outputs& outputs_;
  Spectra spectra_;
  ScoreTable scores_;
  SpectraTable spectra_table_;
  Index case_ = 0;
  std::vector<double> initial_;  ///< of the case
};

}  // namespace graticule::forecast
