// SPDX-License-Identifier: BSD-3-Clause
#include "selection.hpp"

#include <array>

namespace graticule::detail {

Selection select(hid_t dataset, Box const* box) {
  Selection result{h5::Space(h5::check(H5Dget_space(dataset), "H5Dget_space")), h5::Space()};
  int const ndim = h5::check(H5Sget_simple_extent_ndims(result.file.get()), "H5Sget_simple_extent_ndims");
  std::array<hsize_t, max_ndim> lo{};
  std::array<hsize_t, max_ndim> extents{};
  extents.fill(1);
  for (int axis = 0; box != nullptr && axis < ndim; ++axis) {
    lo[std::size_t(axis)] = hsize_t(box->lo(axis));
    extents[std::size_t(axis)] = hsize_t(box->extent(axis));
  }
  result.memory = h5::Space(h5::check(
      ndim > 0 ? H5Screate_simple(ndim, extents.data(), nullptr) : H5Screate(H5S_SCALAR), "H5Screate_simple"));
  if (box == nullptr) {
    h5::check(H5Sselect_none(result.file.get()), "H5Sselect_none");
    h5::check(H5Sselect_none(result.memory.get()), "H5Sselect_none");
  } else if (ndim > 0) {
    h5::check(H5Sselect_hyperslab(result.file.get(), H5S_SELECT_SET, lo.data(), nullptr, extents.data(), nullptr),
              "H5Sselect_hyperslab");
  }
  return result;
}

}  // namespace graticule::detail
