// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/joined.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

/// Names of values, in the order in which a user reads them.
template <class Value>
using Choices = std::vector<std::pair<std::string, Value>>;

template <class Value>
[[nodiscard]] std::vector<std::string> names_of(Choices<Value> const& choices) {
  std::vector<std::string> names;
  for (auto const& [name, value] : choices) names.push_back(name);
  return names;
}

/// @pre one of the choices has the name
template <class Value>
[[nodiscard]] Value value_of(Choices<Value> const& choices, std::string const& name) {
  return std::find_if(choices.begin(), choices.end(), [&](auto const& one) { return one.first == name; })->second;
}

/// An option that takes one of some names. Its text stays as the user wrote it, so that `--dump-config` can show it.
template <class Value>
CLI::Option* add_choice(CLI::App& app, std::string const& option, Value& value,
                        std::type_identity_t<Choices<Value>> const& choices, std::string const& text) {
  std::string present;
  for (auto const& [name, choice] : choices)
    if (choice == value) present = name;
  auto const names = names_of(choices);
  return app
      .add_option_function<std::string>(
          option, [&value, choices](std::string const& name) { value = value_of(choices, name); }, text)
      ->check(CLI::IsMember(names).description(""))
      ->type_name(joined(names, "|"))
      ->default_str(present);
}

}  // namespace graticule::app
