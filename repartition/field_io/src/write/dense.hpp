// SPDX-License-Identifier: BSD-3-Clause
// Boxes of values without gaps, the last axis fastest.
#pragma once

#include <graticule/partition/box.hpp>

#include <cstddef>
#include <optional>

namespace graticule::detail {

/// Where the cells of `part` begin in a dense block of the cells of `whole`, if they lie there one after the other.
[[nodiscard]] std::optional<Index> run_in(Box const& whole, Box const& part);

/// Copies the values of `part` out of a dense block of `whole` into a dense block of their own, and back.
void copy_out(Box const& whole, Box const& part, Index value_bytes, void const* from, void* to);
void copy_in(Box const& whole, Box const& part, Index value_bytes, void const* from, void* to);

}  // namespace graticule::detail
