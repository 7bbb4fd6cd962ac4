// SPDX-License-Identifier: BSD-3-Clause
// Reads a file's structure in a process of its own, which a damaged file may crash, keep busy for ever or make ask for
// all memory: HDF5 1.10.8 does each of these.
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/partition/error.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace graticule::detail {

/// What of a file is read. `growing`: the contents, with the place of the cells that an append leaves alone.
enum class Structure : std::uint8_t { contents, growing, checkpoint };

/// Limits of that process per file. Both grow with the file, so that no intact file reaches them.
struct StructureLimits {
  std::uintmax_t memory_bytes = 0;
  int processor_seconds = 0;
  int seconds = 0;
};
[[nodiscard]] StructureLimits structure_limits(Structure kind, std::uintmax_t file_bytes);

/// Reads `path` in a process that `graticule-read-structure` forks for it, and which has ended when this returns, or
/// ends then by its own limits. The program itself stays for the next file (`StructureHelper`).
///
/// It is found by `GRATICULE_READ_STRUCTURE`, or as `find_structure_programs` says. Nothing is returned when it is
/// nowhere or none starts, after one line on stderr, and when the environment says `GRATICULE_READ_STRUCTURE=none`:
/// then the caller reads the file itself, unprotected.
/// @return the bytes of the `Catalogue` or the `CheckpointContents`
/// @throws as `read_catalogue` and `read_checkpoint_contents`; `BrokenFile` (input) when the
///         process crashed or met a limit; `NoProcess` when it was killed, or could not be started for want of
///         processes or memory
[[nodiscard]] std::optional<std::string> read_by_process(Structure kind, std::filesystem::path const& path,
                                                         FilterPlugins plugins);

/// The letters of the frames that the process sends: a letter, the length of what follows as 64-bit integer, and so
/// many bytes. `reads` comes first of all, empty, and then with the name of what is read next.
enum class Frame : char { reads = 'R', answer = 'A', error = 'E' };

}  // namespace graticule::detail
