// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace graticule::app {

/// What options mean to a run that continues from a checkpoint.
struct ResumeRules {
  std::vector<std::string> compared;  ///< must be as before: results depend on them
  std::vector<std::string> free;      ///< may differ
};

/// Every option of a driver that can be resumed has one of these meanings, so that a new one cannot be forgotten.
/// Call after all options are declared. @throws `UnknownName` for an option of `app` without a meaning, or with two
void require_rule_for_every_option(CLI::App const& app, ResumeRules const& rules);

/// ` --predict tendency ...`: those of the options that were given another value than their default, by name, for the
/// settings that a checkpoint keeps.
[[nodiscard]] std::string text_of_given(CLI::App const& app, std::vector<std::string> const& names);

}  // namespace graticule::app
