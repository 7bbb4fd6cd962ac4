// SPDX-License-Identifier: BSD-3-Clause
// A small whole file, and damaged ones that HDF5 1.10.8 does not survive.
#pragma once

#include "sample_files.hpp"

#include <hdf5_hl.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace graticule::test {

template <class Value>
void put(std::string& bytes, std::size_t at, Value value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// `z(y, x)` of 4 x 6 values with scales, whose names lie in a global heap, and `other`.
inline void write_fields(std::filesystem::path const& path) {
  NewFile const file(path);
  std::vector<float> const values(24, 1.0F);
  write_dataset(file, {"y", H5T_IEEE_F32LE, {4}}, H5T_NATIVE_FLOAT, values.data(),
                [](hid_t y) { H5DSset_scale(y, "y"); });
  write_dataset(file, {"x", H5T_IEEE_F32LE, {6}}, H5T_NATIVE_FLOAT, values.data(),
                [](hid_t x) { H5DSset_scale(x, "x"); });
  for (auto const* name : {"z", "other"})
    write_dataset(file, {name, H5T_IEEE_F32LE, {4, 6}, {2, 3}}, H5T_NATIVE_FLOAT, values.data(), [&](hid_t z) {
      int axis = 0;
      for (auto const* scale : {"y", "x"}) {
        hid_t const id = H5Dopen2(file, scale, H5P_DEFAULT);
        H5DSattach_scale(z, id, unsigned(axis++));
        H5Dclose(id);
      }
    });
}

/// The same, with a heap whose first object has no length: HDF5 looks at it for ever.
inline void write_endless_heap(std::filesystem::path const& path) {
  write_fields(path);
  auto bytes = read_bytes(path);
  auto const heap = bytes.find("GCOL");
  if (heap == std::string::npos) throw std::runtime_error("no heap in " + path.string());
  put(bytes, heap + 24, std::uint64_t(0));
  write_bytes(path, bytes);
}

}  // namespace graticule::test
