// SPDX-License-Identifier: BSD-3-Clause
// A program that is linked with an installed, static Graticule does not lie near it, and the libraries do not know
// where they were installed: the CMake package tells it to the compiler.
#pragma once

namespace graticule::detail {

/// Adds a folder to those where the library looks for the programs that it starts. @return true
bool note_program_folder(char const* folder);

#ifdef GRATICULE_PROGRAM_FOLDER
inline bool const program_folder_is_noted = note_program_folder(GRATICULE_PROGRAM_FOLDER);
#endif

}  // namespace graticule::detail
