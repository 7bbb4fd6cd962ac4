// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/shared_options.hpp>
#include <graticule/samples/detail/fields.hpp>
#include <graticule/samples/detail/missing_cells.hpp>

#include <string>

namespace graticule::forecasting {

/// Declares `--missing` and `--repeated-longitude`, as graticule-train and graticule-forecast have them.
/// @param cells that --missing is about
inline void declare_data_rules(CLI::App& app, samples::MissingRule& missing, samples::RepeatedColumn& repeated,
                               std::string const& cells) {
  using samples::MissingRule, samples::RepeatedColumn;
  app::add_choice(app, "--missing", missing, {{"warn", MissingRule::warn}, {"error", MissingRule::refuse}},
                  cells +
                      ".\n"
                      "warn: print a line for each variable, and treat the cells as missing\n"
                      "error: stop");
  app::add_choice(app, "--repeated-longitude", repeated,
                  {{"error", RepeatedColumn::refuse}, {"drop", RepeatedColumn::drop}},
                  "If the last column of a file repeats the first (0 and 360 degrees), as in files for plots.\n"
                  "error: stop\n"
                  "drop: leave the last column out");
}

}  // namespace graticule::forecasting
