// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace graticule::app {

/// The style of --help: `--steps N  text [1 to 64; default: 40]`, choices as `auto|on|off`, lines of at most 110
/// columns. Each line of a description begins a new one: one per choice.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }

 private:
  std::string make_description(CLI::App const* app) const override;
  std::string make_usage(CLI::App const* app, std::string name) const override;
  std::string make_option(CLI::Option const* option, bool is_positional) const override;
};

}  // namespace graticule::app
