// SPDX-License-Identifier: BSD-3-Clause
// Choices in environment variables; the only reader of GRATICULE_CHECK, GRATICULE_STALL_SECONDS, GRATICULE_STALL_LIMIT
// and GRATICULE_WAIT.
#include <graticule/partition/detail/environment.hpp>
#include <graticule/partition/detail/patience.hpp>

#include "comm_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <optional>

namespace graticule {

namespace {

struct Settings {
  bool calls = false;
  bool cells = false;
  std::optional<double> report_seconds;
  std::optional<double> error_seconds;
  StallRule stall;  ///< what holds
  detail::Wait wait = detail::Wait::automatic;
};

std::optional<double> seconds_of(char const* variable) {
  char const* const text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  char* end = nullptr;
  double const seconds = std::strtod(text, &end);
  if (*end != '\0' || !std::isfinite(seconds) || seconds < 0)
    throw Error(Fault::usage, "BadOption",
                std::string(variable) + " is '" + std::string(text) + "', not a number of seconds");
  return seconds;
}

Settings read_settings() {
  Settings settings;
  auto const check = detail::choice_of_environment("GRATICULE_CHECK", {"none", "comm", "cells", "all"});
  settings.calls = check == 1 || check == 3;
  settings.cells = check >= 2;
  auto& stall = settings.stall;
  settings.report_seconds = seconds_of("GRATICULE_STALL_SECONDS");
  stall.report_seconds = settings.report_seconds.value_or(stall.report_seconds);
  settings.error_seconds = seconds_of("GRATICULE_STALL_LIMIT");
  if (!settings.error_seconds && settings.calls) settings.error_seconds = stall.report_seconds;
  stall.error_seconds = settings.error_seconds.value_or(stall.error_seconds);
  std::array const waits{detail::Wait::automatic, detail::Wait::poll, detail::Wait::sleep};
  settings.wait = waits[detail::choice_of_environment("GRATICULE_WAIT", {"auto", "poll", "sleep"})];
  return settings;
}

Settings& settings() {
  static Settings once = read_settings();
  return once;
}

thread_local StallRule const* innermost = nullptr;

}  // namespace

std::size_t detail::choice_of_environment(char const* variable, std::initializer_list<std::string_view> values) {
  char const* const text = std::getenv(variable);
  std::string_view const value = text ? text : "";
  auto const* const found = value.empty() ? values.begin() : std::ranges::find(values, value);
  if (found != values.end()) return std::size_t(found - values.begin());
  std::string valid;
  for (auto const* one = values.begin(); one != values.end(); ++one) {
    if (one != values.begin()) valid += one + 1 == values.end() ? " and " : ", ";
    valid += *one;
  }
  throw Error(Fault::usage, "BadOption",
              std::string(variable) + " is '" + std::string(value) + "'; valid are " + valid);
}

StallRule stall_rule() { return innermost ? *innermost : settings().stall; }

StallRule StallRule::of_environment(StallRule const& otherwise) {
  auto const& known = settings();
  return {known.report_seconds.value_or(otherwise.report_seconds),
          known.error_seconds.value_or(otherwise.error_seconds)};
}

StallRule StallRule::of_environment() { return of_environment({}); }

void set_stall_rule(StallRule const& rule) {
  for (double const seconds : {rule.report_seconds, rule.error_seconds})
    if (!std::isfinite(seconds) || seconds < 0)
      throw Error(Fault::usage, "BadOption", std::to_string(seconds) + " is not a valid number of seconds");
  settings().stall = rule;
}

namespace detail {

bool checks_calls() { return settings().calls; }
bool checks_cells() { return settings().cells; }
Wait kind_of_wait() { return settings().wait; }

double seconds_to_end() {
  constexpr double patient = 10;
  constexpr double hurried = 1;
  auto const rule = stall_rule();
  double seconds = std::uncaught_exceptions() > 0 ? hurried : patient;
  for (double const limit : {rule.report_seconds, rule.error_seconds})
    if (limit > 0) seconds = std::min(seconds, limit);
  return seconds;
}

StallScope::StallScope(StallRule const& rule) noexcept : rule_(rule), outer_(innermost) { innermost = &rule_; }
StallScope::~StallScope() { innermost = outer_; }

}  // namespace detail

}  // namespace graticule
