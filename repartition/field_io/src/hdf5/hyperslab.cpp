// SPDX-License-Identifier: BSD-3-Clause
#include "hyperslab.hpp"

#include <algorithm>

namespace graticule::detail {

Sizes sizes_of(Indices const& values) noexcept {
  Sizes sizes{};
  std::copy(values.begin(), values.end(), sizes.begin());
  return sizes;
}

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

Indices counts_within(Slab const& slab, Indices const& extents) {
  auto counts = slab.counts;
  for (int axis = 0; axis < counts.size(); ++axis) {
    Index const below = extents[axis] - slab.start[axis];
    counts[axis] = std::clamp<Index>((below + slab.steps[axis] - 1) / slab.steps[axis], 0, counts[axis]);
  }
  return counts;
}

namespace {

h5::Space block_of(int ndim, Sizes const& counts) {
  return h5::Space(
      h5::check(ndim > 0 ? H5Screate_simple(ndim, counts.data(), nullptr) : H5Screate(H5S_SCALAR), "H5Screate_simple"));
}

}  // namespace

Selection select(hid_t dataset, std::optional<Slab> const& slab) {
  if (slab) return select(dataset, *slab, slab->counts);
  Selection result{h5::Space(h5::check(H5Dget_space(dataset), "H5Dget_space")), h5::Space()};
  Sizes ones{};
  ones.fill(1);
  result.memory =
      block_of(h5::check(H5Sget_simple_extent_ndims(result.file.get()), "H5Sget_simple_extent_ndims"), ones);
  h5::check(H5Sselect_none(result.file.get()), "H5Sselect_none");
  h5::check(H5Sselect_none(result.memory.get()), "H5Sselect_none");
  return result;
}

Selection select(hid_t dataset, Slab const& slab, Indices const& counts) {
  if (Box::from_extents(counts).empty()) return select(dataset, std::nullopt);
  Selection result{h5::Space(h5::check(H5Dget_space(dataset), "H5Dget_space")),
                   block_of(slab.counts.size(), sizes_of(slab.counts))};
  if (counts.size() == 0) return result;
  auto const sizes = sizes_of(counts);
  h5::check(H5Sselect_hyperslab(result.file.get(), H5S_SELECT_SET, sizes_of(slab.start).data(),
                                sizes_of(slab.steps).data(), sizes.data(), nullptr),
            "H5Sselect_hyperslab");
  if (counts != slab.counts)
    h5::check(H5Sselect_hyperslab(result.memory.get(), H5S_SELECT_SET, Sizes{}.data(), nullptr, sizes.data(), nullptr),
              "H5Sselect_hyperslab");
  return result;
}

}  // namespace graticule::detail
