// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <filesystem>
#include <span>

namespace graticule {

/// Compares the file of this name between ranks: nodes may have copies, of which some may be out of date. Collective.
/// `FieldFile` does it for its own ranks; call it for teams that open the same file each by themselves.
///
/// One file, by its number, size and time of change, needs no more than that on one node. Otherwise the sizes and up to
/// 256 samples of the bytes, with the first and the last ones, are compared. Times are not: copies differ in them.
/// @throws `BadInput` (input), on all ranks, with the hosts that differ
/// Cost: two small all-reduces; where there may be copies, about 1.2 MiB read by one rank of each node, or by all ranks
/// if files differ in number or time
void require_same_copies(Comm const& comm, std::filesystem::path const& path);
/// The same for several files at once: no further calls for each where all are the same.
void require_same_copies(Comm const& comm, std::span<std::filesystem::path const> paths);

}  // namespace graticule
