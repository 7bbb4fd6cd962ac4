// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/resuming.hpp>
#include <graticule/partition/error.hpp>

#include "config.hpp"

#include <algorithm>

namespace graticule::app {

void require_rule_for_every_option(CLI::App const& app, ResumeRules const& rules) {
  for (auto const* option : app.get_options()) {
    if (option->get_group() == common_group) continue;
    auto const name = option->get_name();
    auto const num_rules = std::count(rules.compared.begin(), rules.compared.end(), name) +
                           std::count(rules.free.begin(), rules.free.end(), name);
    if (num_rules != 1)
      throw Error("UnknownName", name +
                                     " must be one of the options that a resumed run compares or of those that may " +
                                     "differ, and is in " + std::to_string(num_rules) + " of these lists");
  }
}

std::string text_of_given(CLI::App const& app, std::vector<std::string> const& names) {
  std::string text;
  for (auto const& name : names) {
    auto const* const option = app.get_option(name);
    std::string value;
    for (auto const& part : option->results()) value += (value.empty() ? "" : ",") + part;
    if (option->count() > 0 && value != option->get_default_str())
      text.append(" ").append(name).append(" ").append(value);
  }
  return text;
}

}  // namespace graticule::app
