// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/app/driver.hpp>

#include "options.hpp"

#include <string_view>

namespace graticule::info {

/// Whether a file is taken for an exported network, by its name.
[[nodiscard]] inline bool is_program(std::string_view file) { return file.ends_with(".pt2"); }

/// Call it before MPI starts. Where `graticule-info` is built without LibTorch and the command line names an exported
/// network, or a configuration that may name one, this process becomes `graticule-info-network` of the same folder.
/// Returns where there is nothing to do, or no such program.
void start_program_reader(int argc, char** argv);

/// Prints inputs, outputs, parameters and operators of an exported network, and compares it with golden figures, on as
/// many ranks as the program has. Rank 0 prints.
/// @return an exit code, the same on all ranks @throws those of `program::Program` and `program::ShardedProgram`
[[nodiscard]] int show_program(app::Context& context, Options const& options);

}  // namespace graticule::info
