// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace graticule::app {

/// The names, with `separator` between them.
[[nodiscard]] inline std::string joined(std::vector<std::string> const& names, std::string const& separator = ", ") {
  std::string text;
  for (std::string const& name : names) text += (text.empty() ? "" : separator) + name;
  return text;
}

}  // namespace graticule::app
