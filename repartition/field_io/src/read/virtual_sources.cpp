// SPDX-License-Identifier: BSD-3-Clause
#include "virtual_sources.hpp"

#include <graticule/partition/indices.hpp>

#include "hdf5/handle.hpp"
#include "signature.hpp"

#include <algorithm>
#include <array>

namespace graticule::detail {

namespace {

std::string text_of(hid_t creation, std::size_t i, ssize_t (*read)(hid_t, size_t, char*, size_t)) {
  auto const size = h5::check(read(creation, i, nullptr, 0), "H5Pget_virtual_filename");
  std::string text(std::size_t(size) + 1, '\0');
  h5::check(read(creation, i, text.data(), text.size()), "H5Pget_virtual_filename");
  text.resize(std::size_t(size));
  return text;
}

using Bounds = std::array<hsize_t, H5S_MAX_RANK>;

/// The reason why a dataset of a source file cannot be read, if any.
std::string obstacle(hid_t file, std::string const& name, hid_t selection, hssize_t num_cells) {
  h5::Dataset const dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
  if (!dataset) return "has no dataset " + name;
  h5::Space const space(h5::check(H5Dget_space(dataset.get()), "H5Dget_space"));
  Bounds extents{};
  Bounds lo{};
  Bounds hi{};
  int const ndim =
      h5::check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), "H5Sget_simple_extent_dims");
  bool too_small = false;
  if (H5Sget_select_type(selection) == H5S_SEL_ALL) {
    // All of the source: HDF5 does not keep how much that was.
    too_small = H5Sget_simple_extent_npoints(space.get()) < num_cells;
  } else {
    if (H5Sget_simple_extent_ndims(selection) != ndim) return "has a dataset " + name + " of other axes";
    h5::check(H5Sget_select_bounds(selection, lo.data(), hi.data()), "H5Sget_select_bounds");
    for (std::size_t axis = 0; axis < std::size_t(ndim); ++axis) too_small = too_small || hi[axis] >= extents[axis];
  }
  if (too_small) return "has a dataset " + name + " that is too small";
  h5::Properties const creation(h5::check(H5Dget_create_plist(dataset.get()), "H5Dget_create_plist"));
  if (H5Pget_layout(creation.get()) == H5D_VIRTUAL) return "has a dataset " + name + " that is virtual itself";
  if (H5Pget_external_count(creation.get()) > 0) return "has a dataset " + name + " whose values lie elsewhere";
  return {};
}

std::string obstacle(std::filesystem::path const& path, std::string const& name, hid_t selection, hssize_t num_cells) {
  try {
    require_hdf5_signature(path);
  } catch (Error const& error) {
    return "cannot be read: " + error.text();
  }
  h5::Properties const access(h5::check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  h5::check(H5Pset_file_locking(access.get(), false, true), "H5Pset_file_locking");
  h5::File const file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) return "cannot be read: " + h5::error_text();
  return obstacle(file.get(), name, selection, num_cells);
}

/// A folder above the file's own, or a name that starts at the root.
bool leads_elsewhere(std::filesystem::path const& name) {
  return name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
}

}  // namespace

Refusal check_virtual_sources(hid_t creation, hsize_t num_cells, std::filesystem::path const& file) {
  std::size_t count = 0;
  h5::check(H5Pget_virtual_count(creation, &count), "H5Pget_virtual_count");
  hsize_t num_mapped = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto const source = text_of(creation, i, H5Pget_virtual_filename);
    auto const dataset = text_of(creation, i, H5Pget_virtual_dsetname);
    h5::Space const target(h5::check(H5Pget_virtual_vspace(creation, i), "H5Pget_virtual_vspace"));
    h5::Space const selection(h5::check(H5Pget_virtual_srcspace(creation, i), "H5Pget_virtual_srcspace"));
    auto const start = "it is a virtual dataset, and its source " + source;
    auto const points = H5Sget_select_npoints(target.get());
    if (points < 0 || hsize_t(points) == H5S_UNLIMITED || source.find('%') != std::string::npos)
      return {"UnreadableVariable", start + " may grow; copy it into one file, or give its extents when it is made"};
    if (source != "." && leads_elsewhere(source))
      return {"UnreadableVariable",
              start +
                  " is named by an absolute path or by one through '..', and such names are not followed; put it "
                  "beside " +
                  file.filename().string() + ", and make that anew with the name alone"};
    auto const path = source == "." ? file : file.parent_path() / source;
    if (auto const what = obstacle(path, dataset, selection.get(), points); !what.empty())
      return {"UnreadableVariable", start + " " + what};
    num_mapped += hsize_t(points);
  }
  if (num_mapped != num_cells)
    return {"UnreadableVariable", "it is a virtual dataset, and its sources give " + std::to_string(num_mapped) +
                                      " of its " + std::to_string(num_cells) + " cells"};
  return {};
}

}  // namespace graticule::detail
