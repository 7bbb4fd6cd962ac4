// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "scores.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace graticule::forecast {

/// What a spectrum is of: the members of the forecasts, or the truth.
enum class SpectrumOf : std::uint8_t { forecast, truth };

/// Power of forecast and truth by wavenumber, for each channel and lead, averaged over cases and members.
///
/// One rank's copy; all ranks add the same numbers. Memory: 16 bytes per channel, lead and wavenumber.
class SpectraTable {
 public:
  SpectraTable(Index num_channels, Index num_leads, Index num_regions, Index num_waves);

  /// Adds the spectra of a case. @param sums [channel][count, waves of each region, degrees], each times the count; the
  /// count is 0 for a channel with missing values. The number of degrees is the same in all calls, and may be 0
  void add(Index lead, SpectrumOf of, std::span<double const> sums);

  [[nodiscard]] bool empty() const noexcept { return values_.empty(); }
  [[nodiscard]] Index num_waves() const noexcept { return num_waves_; }
  [[nodiscard]] Index num_degrees() const noexcept;
  /// The mean by zonal wavenumber in a region; empty where nothing was added.
  [[nodiscard]] std::vector<double> zonal(SpectrumOf of, Index channel, Index lead, Index region) const;
  /// Likewise by total wavenumber.
  [[nodiscard]] std::vector<double> spherical(SpectrumOf of, Index channel, Index lead) const;

  /// All sums, for a checkpoint, and back.
  [[nodiscard]] std::vector<double> const& values() const noexcept { return values_; }
  /// @throws `StateMismatch` (input) for a number of them that does not fit
  void set_values(std::vector<double> values);

 private:
  [[nodiscard]] Index num_zonal() const noexcept { return num_regions_ * num_waves_; }
  [[nodiscard]] std::vector<double> mean(SpectrumOf of, Index channel, Index lead, Index first, Index count) const;

  Index num_channels_;
  Index num_leads_;
  Index num_regions_;
  Index num_waves_;
  Index stride_ = 0;            ///< numbers of one channel at one lead
  std::vector<double> values_;  ///< [forecast, truth][lead][channel][count, waves, degrees]
};

}  // namespace graticule::forecast
