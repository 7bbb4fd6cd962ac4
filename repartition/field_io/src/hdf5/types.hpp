// SPDX-License-Identifier: BSD-3-Clause
// Between HDF5's types and ours, and attributes of HDF5 objects.
#pragma once

#include "handle.hpp"

#include <optional>
#include <string>
#include <vector>

namespace graticule::detail::h5 {

struct StoredType {
  ValueType type = ValueType::other;
  bool is_big_endian = false;
  bool is_strings = false;  ///< of variable length
  Index bytes = 0;          ///< of one value; 0 where a copy of the bytes would not be the value
  std::string described;    ///< for messages, when `type` is `other`
};

[[nodiscard]] StoredType stored_type(hid_t type);

/// All values of a dataset of strings of variable length, cut at zeros; nothing for more than so many bytes with their
/// padding to the longest. HDF5 may crash on a damaged file.
[[nodiscard]] std::optional<std::vector<std::string>> read_strings(hid_t dataset, std::size_t most_bytes);

/// HDF5's error for an attribute that it cannot read; empty if it can. Must be called before any call that lists
/// attributes (H5Aiterate2, H5Aopen_by_idx, H5DSis_scale, H5DSiterate_scales): HDF5 1.10.8 then frees a table that it
/// has filled in part only (H5A__attr_release_table, HDFGroup/hdf5 issue 6622), and crashes.
[[nodiscard]] std::string attribute_trouble(hid_t object);

/// The attributes of an object that mean something to users: those that netCDF-4 and HDF5 keep for themselves are left
/// out, and so are values that are neither numbers nor text. In order of creation where the file records it.
[[nodiscard]] std::vector<Attribute> read_attributes(hid_t object);

/// One attribute, also a hidden one; nothing when it is not there or is neither numbers nor text.
[[nodiscard]] std::optional<Attribute> read_attribute(hid_t object, std::string const& name);

/// Writes an attribute: text as one fixed-length string, one number as a one-element list, as netCDF does.
void write_attribute(hid_t object, Attribute const& attribute);

}  // namespace graticule::detail::h5
