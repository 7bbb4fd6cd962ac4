// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/models/detail/time_options.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/samples/detail/time_steps.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

namespace graticule::samples {

Lead parse_lead(std::string const& option, std::string const& text) {
  Index steps = 0;
  auto const* const end = text.data() + text.size();
  if (auto const [last, status] = std::from_chars(text.data(), end, steps); last == end && status == std::errc{}) {
    if (steps < 1 || steps > 1'000'000)
      throw Error(Fault::usage, "BadOption", option + " " + text + " is not a number of steps of the time axis");
    return {.steps = steps};
  }
  return {.duration = parse_duration(option, text)};
}

TimeSteps::TimeSteps(std::vector<Seconds> times, Lead const& lead, Calendar calendar)
    : times_(std::move(times)), calendar_(calendar) {
  Seconds longest = 0;
  interval_ = std::numeric_limits<Seconds>::max();
  for (std::size_t i = 1; i < times_.size(); ++i) {
    Seconds const interval = times_[i] - times_[i - 1];
    if (interval <= 0)
      throw Error(Fault::input, "BadInput",
                  "times do not rise: " + text(times_[i - 1]) + " is followed by " + text(times_[i]));
    interval_ = std::min(interval_, interval);
    longest = std::max(longest, interval);
  }
  if (times_.size() < 2) {
    // States of one time: a forecast may start there, its lead is known in hours only.
    interval_ = 0;
    lead_seconds_ = lead.duration;
    if (lead.steps > 0)
      throw Error(Fault::usage, "BadOption", "the input has one time only: give the lead as a duration such as 6h");
    return;
  }
  bool const is_regular =
      std::all_of(times_.begin(), times_.end(), [&](Seconds time) { return (time - times_.front()) % interval_ == 0; });
  if (!is_regular && 2 * longest >= 3 * interval_)
    throw Error(Fault::input, "BadInput",
                "intervals of the time axis are no multiples of the shortest one, " + duration_text(interval_) +
                    ": the longest is " + duration_text(longest));
  if (!is_regular && lead.steps == 0)
    throw Error(Fault::usage, "BadOption",
                "intervals of the time axis vary from " + duration_text(interval_) + " to " + duration_text(longest) +
                    ": give the lead as a number of steps, not as " + duration_text(lead.duration));
  if (is_regular && lead.duration % interval_ != 0)
    throw Error(Fault::usage, "BadOption",
                "a lead of " + duration_text(lead.duration) + " does not fit the time axis, whose interval is " +
                    duration_text(interval_) + "; give a multiple of it");
  lead_positions_ = is_regular ? 0 : lead.steps;
  lead_seconds_ = !is_regular      ? (times_.back() - times_.front()) / (num_times() - 1) * lead.steps
                  : lead.steps > 0 ? lead.steps * interval_
                                   : lead.duration;
}

std::optional<Index> TimeSteps::find(Seconds time) const {
  auto const found = std::lower_bound(times_.begin(), times_.end(), time);
  if (found == times_.end() || *found != time) return {};
  return found - times_.begin();
}

std::optional<Index> TimeSteps::at(Index position, Index leads) const {
  if (lead_positions_ == 0) return find(times_[std::size_t(position)] + leads * lead_seconds_);
  Index const there = position + leads * lead_positions_;
  if (there < 0 || there >= num_times()) return {};
  return there;
}

std::vector<Seconds> TimeSteps::gaps() const {
  std::vector<Seconds> before;
  if (lead_positions_ > 0) return before;
  for (std::size_t i = 1; i < times_.size(); ++i)
    if (times_[i] - times_[i - 1] > interval_) before.push_back(times_[i - 1]);
  return before;
}

}  // namespace graticule::samples
