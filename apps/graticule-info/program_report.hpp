// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>

#include "options.hpp"

namespace graticule::info {

/// Prints inputs, outputs, parameters and operators of an exported network, and compares it with golden figures, on as
/// many ranks as the program has. Rank 0 prints.
/// @return an exit code, the same on all ranks @throws those of `program::Program` and `program::ShardedProgram`
[[nodiscard]] int show_program(app::Context& context, Options const& options);

}  // namespace graticule::info
