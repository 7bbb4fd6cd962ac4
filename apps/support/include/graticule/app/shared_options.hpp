// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace graticule::app {

/// What --help says of an option that several drivers have.
struct SharedOption {
  char const* name;
  char const* label;  ///< in place of its value: `FOLDER`; null: by its type
  char const* text;   ///< its beginning; drivers may add to it
};

/// @throws `UnknownName` for an option that is not in the table
[[nodiscard]] SharedOption const& shared_option(std::string const& name);

/// Declares an option of the table, with the same words in every driver. @param more ends its text
template <class Value>
CLI::Option* add_shared(CLI::App& app, std::string const& name, Value& value, std::string const& more = "") {
  auto const& option = shared_option(name);
  auto* const added = app.add_option(name, value, option.text + more)->capture_default_str();
  return option.label == nullptr ? added : added->type_name(option.label);
}

}  // namespace graticule::app
