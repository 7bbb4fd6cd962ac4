// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/description.hpp>
#include <graticule/samples/detail/names.hpp>

#include <optional>
#include <string>
#include <vector>

namespace graticule::samples {

/// `4` (steps of the time axis), `6h`, `1d`. @throws `BadOption` (usage)
[[nodiscard]] Lead parse_lead(std::string const& option, std::string const& text);

/// Finds the states that are a number of leads apart on a time axis, which may have gaps.
///
/// Times count, not positions, so that no sample crosses a gap. Only where intervals differ by less than half, as those
/// of months do, positions count, and the lead must be a number of steps.
/// Example: 00, 06, 12, 18, 06 (the next day; 00 is missing) with a lead of 6 h: from position 0 one lead is position
/// 1; from position 3 there is none; two leads from 2 are none either.
class TimeSteps {
 public:
  /// @param times of the axis
  /// @throws `BadInput` (input) unless they rise at one interval, with or without gaps; `BadOption` (usage) for the
  /// lead
  TimeSteps(std::vector<Seconds> times, Lead const& lead, Calendar calendar = Calendar::standard);

  [[nodiscard]] std::vector<Seconds> const& times() const noexcept { return times_; }
  /// Of the times.
  [[nodiscard]] Calendar calendar() const noexcept { return calendar_; }
  /// A time in the calendar: `2006-01-01 06:00`.
  [[nodiscard]] std::string text(Seconds time) const { return time_text(time, calendar_); }
  [[nodiscard]] Index num_times() const noexcept { return Index(times_.size()); }
  /// The position `leads` (negative: earlier) from `position`; none where the axis ends or has a gap.
  [[nodiscard]] std::optional<Index> at(Index position, Index leads) const;
  /// The position of a time, if it is on the axis.
  [[nodiscard]] std::optional<Index> find(Seconds time) const;

  /// Of one lead; on an axis of months the mean.
  [[nodiscard]] Seconds lead_seconds() const noexcept { return lead_seconds_; }
  /// Whether positions count, as on an axis of months.
  [[nodiscard]] bool counts_positions() const noexcept { return lead_positions_ > 0; }
  /// The last times before a gap.
  [[nodiscard]] std::vector<Seconds> gaps() const;

 private:
  std::vector<Seconds> times_;
  Calendar calendar_;
  Seconds interval_ = 0;      ///< the shortest; 0 for a single time
  Index lead_positions_ = 0;  ///< 0: times count
  Seconds lead_seconds_ = 0;
};

}  // namespace graticule::samples
