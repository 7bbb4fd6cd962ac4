// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/box.hpp>

#include "handle.hpp"

#include <array>
#include <optional>

namespace graticule::detail {

/// One number per axis as HDF5 takes them; 0 beyond the last axis.
using Sizes = std::array<hsize_t, max_ndim>;
[[nodiscard]] Sizes sizes_of(Indices const& values) noexcept;

/// `counts[a]` cells of a dataset along axis `a`, `steps[a] > 0` cells apart, from `start[a]` on.
struct Slab {
  Indices start;
  Indices steps;
  Indices counts;
};

/// Nothing for no box.
[[nodiscard]] std::optional<Slab> slab_of(Box const* box);
/// The cells `piece` of the cells `all`, which lie in a dataset as `slab` says.
[[nodiscard]] Slab part_of(Slab const& slab, Box const& all, Box const& piece);

/// How many of the slab's cells along each axis lie below `extents`; none at all gives a count of 0.
[[nodiscard]] Indices counts_within(Slab const& slab, Indices const& extents);

/// Some cells of a dataset and a dense block of as many cells in memory.
struct Selection {
  h5::Space file;
  h5::Space memory;
};

/// Without a slab, both select nothing: a rank takes part in a collective call so.
[[nodiscard]] Selection select(hid_t dataset, std::optional<Slab> const& slab);
/// The first `counts` of the slab's cells only, at their places in a block of all of them.
[[nodiscard]] Selection select(hid_t dataset, Slab const& slab, Indices const& counts);

}  // namespace graticule::detail
