// SPDX-License-Identifier: BSD-3-Clause
// The configuration file: options by their names, in YAML.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace graticule::app {

/// The group of the options of every driver.
inline constexpr char const* common_group = "Common to all drivers";

/// The path after `--config` in `arguments` (without the program's name); empty when there is none.
[[nodiscard]] std::string config_path(std::vector<std::string> const& arguments);

/// `arguments` and before them, as `--name=value`, the entries of the configuration `text` that the command line does
/// not set itself: they count as given there, whatever the default is. Lists are joined by commas. `path` is for
/// messages.
/// @throws `BadOption` (usage) for what is not YAML, for a value that is no scalar or list of scalars, and for an
/// unknown name, with the nearest known one
[[nodiscard]] std::vector<std::string> with_config(CLI::App const& app, std::vector<std::string> arguments,
                                                   std::string const& path, std::string const& text);

/// The effective options as such a file: those that were given, and the defaults of the others except empty ones.
[[nodiscard]] std::string dumped_config(CLI::App const& app);

/// The long option name nearest to `name` by edit distance; empty when there is none at all.
[[nodiscard]] std::string nearest_option(CLI::App const& app, std::string const& name);

}  // namespace graticule::app
