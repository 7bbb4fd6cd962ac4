// SPDX-License-Identifier: BSD-3-Clause
// Chunks decoded by several threads.
#pragma once

#include <graticule/partition/box.hpp>

#include <functional>

namespace graticule::detail {

/// @param asked by a program; 0 stands for the number in the environment, else one
/// @throws `BadOption` (usage) for a negative number, and for another text in GRATICULE_READ_THREADS
[[nodiscard]] int reading_threads(int asked);

/// Calls `visit(number)` for the numbers [0, count), by this thread and so many less one others, which have ended when
/// this returns. With one thread in order. @throws the error of the lowest number that has one; the numbers above may
/// be left out then
void by_threads(int num_threads, Index count, std::function<void(Index)> const& visit);

/// The same for the cells of a box.
void for_each_cell_by_threads(int num_threads, Box const& box, std::function<void(Indices const&)> const& visit);

}  // namespace graticule::detail
