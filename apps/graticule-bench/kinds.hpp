// SPDX-License-Identifier: BSD-3-Clause
// The kinds of measurement, and the options that only some of them take.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace graticule::bench {

[[nodiscard]] std::vector<std::string> const& all_kinds();

/// Adds the kinds that take an option to its help, where not all do. @pre all options are declared
void describe_kinds(CLI::App& app);

/// Takes their defaults from options that do not apply to `kind`, so that `--dump-config` omits them.
/// @return one of them that was given; empty: none
[[nodiscard]] std::string settle_kind(CLI::App& app, std::string const& kind);

}  // namespace graticule::bench
