// SPDX-License-Identifier: BSD-3-Clause
// Choices in environment variables; the only reader of GRATICULE_CHECK, GRATICULE_STALL_SECONDS, GRATICULE_STALL_LIMIT
// and GRATICULE_WAIT.
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/environment.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/stall_rule.hpp>

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
  std::size_t check = 0;  ///< of `checks`
  std::optional<double> report_seconds;
  std::optional<double> error_seconds;
  StallRule stall;  ///< what holds
  detail::Wait wait = detail::Wait::automatic;
  std::optional<Error> wrong;  ///< what makes no sense; the rest is then as if no variable was set
};

constexpr std::array<std::string_view, 4> checks{"none", "comm", "cells", "all"};
bool compares_calls(Settings const& settings) { return settings.check == 1 || settings.check == 3; }

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
  settings.check = detail::choice_of_environment("GRATICULE_CHECK", {checks[0], checks[1], checks[2], checks[3]});
  auto& stall = settings.stall;
  settings.report_seconds = seconds_of("GRATICULE_STALL_SECONDS");
  stall.report_seconds = settings.report_seconds.value_or(stall.report_seconds);
  settings.error_seconds = seconds_of("GRATICULE_STALL_LIMIT");
  if (!settings.error_seconds && compares_calls(settings)) settings.error_seconds = stall.report_seconds;
  stall.error_seconds = settings.error_seconds.value_or(stall.error_seconds);
  std::array const waits{detail::Wait::automatic, detail::Wait::poll, detail::Wait::sleep};
  settings.wait = waits[detail::choice_of_environment("GRATICULE_WAIT", {"auto", "poll", "sleep"})];
  return settings;
}

Settings& settings() {
  static Settings once = [] {
    try {
      return read_settings();
    } catch (Error const& error) {
      Settings none;
      none.wrong = error;
      return none;
    }
  }();
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
  if (known.wrong) throw Error(*known.wrong);
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

std::optional<Error> const& wrong_environment() { return settings().wrong; }
int kind_of_check() { return int(settings().check); }
std::string_view name_of_check(int kind) { return checks[std::size_t(kind)]; }
bool checks_calls() { return compares_calls(settings()); }
bool checks_cells() { return settings().check >= 2; }
Wait kind_of_wait() { return settings().wait; }

double seconds_to_end() {
  constexpr double patient = 10;
  constexpr double hurried = 1;
  auto const rule = stall_rule();
  double seconds = hurries() ? hurried : patient;
  for (double const limit : {rule.report_seconds, rule.error_seconds})
    if (limit > 0) seconds = std::min(seconds, limit);
  return seconds;
}

namespace {
thread_local int num_hurries = 0;
}

HurryScope::HurryScope() noexcept { ++num_hurries; }
HurryScope::~HurryScope() { --num_hurries; }
bool hurries() noexcept { return num_hurries > 0 || std::uncaught_exceptions() > 0; }

StallScope::StallScope(StallRule const& rule) noexcept : rule_(rule), outer_(innermost) { innermost = &rule_; }
StallScope::~StallScope() { innermost = outer_; }

}  // namespace detail

}  // namespace graticule
