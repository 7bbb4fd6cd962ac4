// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace graticule::app {

/// The names, separated by `, `.
[[nodiscard]] inline std::string joined(std::vector<std::string> const& names) {
  std::string text;
  for (std::string const& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace graticule::app
