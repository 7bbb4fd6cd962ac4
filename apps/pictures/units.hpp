// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace graticule::app {

/// Units for readers: `m s**-1` becomes m s⁻¹.
[[nodiscard]] std::string pretty_units(std::string const& units);
/// Those of squares: `m s**-1` becomes (m s⁻¹)², K becomes K².
[[nodiscard]] std::string squared_units(std::string const& units);
/// `rmse (K)`; without units `rmse`.
[[nodiscard]] std::string with_units(std::string const& name, std::string const& pretty);

}  // namespace graticule::app
