// SPDX-License-Identifier: BSD-3-Clause
#include "hyperslab.hpp"

#include <array>

namespace graticule::detail {

std::optional<Slab> slab_of(Box const* box) {
  if (box == nullptr) return {};
  return Slab{box->lo(), Indices::filled(box->ndim(), 1), box->extents()};
}

Slab part_of(Slab const& slab, Box const& all, Box const& piece) {
  Slab result{slab.start, slab.steps, piece.extents()};
  for (int axis = 0; axis < piece.ndim(); ++axis)
    result.start[axis] += (piece.lo(axis) - all.lo(axis)) * slab.steps[axis];
  return result;
}

Selection select(hid_t dataset, std::optional<Slab> const& slab) {
  Selection result{h5::Space(h5::check(H5Dget_space(dataset), "H5Dget_space")), h5::Space()};
  int const ndim = h5::check(H5Sget_simple_extent_ndims(result.file.get()), "H5Sget_simple_extent_ndims");
  using Sizes = std::array<hsize_t, max_ndim>;
  Sizes start{};
  Sizes steps{};
  Sizes counts{};
  counts.fill(1);
  for (int axis = 0; slab && axis < ndim; ++axis) {
    start[std::size_t(axis)] = hsize_t(slab->start[axis]);
    steps[std::size_t(axis)] = hsize_t(slab->steps[axis]);
    counts[std::size_t(axis)] = hsize_t(slab->counts[axis]);
  }
  result.memory = h5::Space(
      h5::check(ndim > 0 ? H5Screate_simple(ndim, counts.data(), nullptr) : H5Screate(H5S_SCALAR), "H5Screate_simple"));
  if (!slab) {
    h5::check(H5Sselect_none(result.file.get()), "H5Sselect_none");
    h5::check(H5Sselect_none(result.memory.get()), "H5Sselect_none");
  } else if (ndim > 0) {
    h5::check(
        H5Sselect_hyperslab(result.file.get(), H5S_SELECT_SET, start.data(), steps.data(), counts.data(), nullptr),
        "H5Sselect_hyperslab");
  }
  return result;
}

}  // namespace graticule::detail
