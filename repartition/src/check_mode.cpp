// SPDX-License-Identifier: BSD-3-Clause
#include "check_mode.hpp"

#include <graticule/partition/error.hpp>

#include <cmath>
#include <cstdlib>
#include <string>

namespace graticule::detail {

namespace {

struct Settings {
  bool calls = false;
  bool cells = false;
  double stall_seconds = 300;
};

Settings read_settings() {
  Settings settings;
  char const* const check = std::getenv("GRATICULE_CHECK");
  std::string const value = check ? check : "";
  settings.calls = value == "comm" || value == "all";
  settings.cells = value == "cells" || value == "all";
  if (!settings.calls && !settings.cells && !value.empty() && value != "none")
    throw Error(Fault::usage, "BadCheck", "GRATICULE_CHECK is '" + value + "'; known are none, comm, cells and all");
  if (char const* const seconds = std::getenv("GRATICULE_STALL_SECONDS"); seconds && *seconds) {
    char* end = nullptr;
    settings.stall_seconds = std::strtod(seconds, &end);
    if (*end != '\0' || !std::isfinite(settings.stall_seconds) || settings.stall_seconds < 0)
      throw Error(Fault::usage, "BadStallSeconds",
                  "GRATICULE_STALL_SECONDS is '" + std::string(seconds) + "', not a number of seconds");
  }
  return settings;
}

Settings const& settings() {
  static Settings const once = read_settings();
  return once;
}

}  // namespace

bool checks_calls() { return settings().calls; }
bool checks_cells() { return settings().cells; }
double stall_seconds() { return settings().stall_seconds; }

}  // namespace graticule::detail
