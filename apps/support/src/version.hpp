// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace graticule::app {

/// Graticule's version, such as `0.1.0`.
[[nodiscard]] std::string release();

}  // namespace graticule::app
