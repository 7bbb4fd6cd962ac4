// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>

#include "options.hpp"

namespace graticule::info {

/// Prints what the file holds and how its first field on a sphere would be cut. Collective; rank 0 prints.
void list_file(app::Context& context, Options const& options);

}  // namespace graticule::info
