// SPDX-License-Identifier: BSD-3-Clause
// Files for the tests, written with plain HDF5 or netCDF's own tools, never with the code under test.
#pragma once

#include <graticule/partition/indices.hpp>

#include "files.hpp"
#include "shared_folder.hpp"

#include <hdf5.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace graticule::test {

inline bool has_tool(std::string const& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

inline void run_tool(std::string const& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

/// The number of a cell where the last axis varies fastest.
inline Index row_major(Indices const& extents, Indices const& cell) {
  Index result = 0;
  for (int axis = 0; axis < extents.size(); ++axis) result = result * extents[axis] + cell[axis];
  return result;
}

/// What ncdump prints of a file. Collective over the folder's ranks.
inline std::string ncdump(Folder const& folder, std::filesystem::path const& file, std::string const& options = "") {
  static int number = 0;  // no name twice: other ranks may still read the last one
  auto const text = folder.make("ncdump" + std::to_string(number++) + ".txt", [&](auto const& p) {
    run_tool("ncdump " + options + " '" + file.string() + "' > '" + p.string() + "'");
  });
  return read_bytes(text);
}

/// netCDF-4 from its text form, by ncgen.
inline void write_cdl(std::filesystem::path const& path, std::string const& cdl) {
  auto const source = path.string() + ".cdl";
  write_bytes(source, cdl);
  run_tool("ncgen -k nc4 -o '" + path.string() + "' '" + source + "'");
}

/// Cuts a variable along unlimited dimensions, as netCDF leaves one that it wrote fewer records of. ncgen fills all up.
inline void shorten(std::filesystem::path const& path, std::string const& name, std::vector<hsize_t> const& extents) {
  hid_t const file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  hid_t const dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  herr_t const done = H5Dset_extent(dataset, extents.data());
  H5Dclose(dataset);
  H5Fclose(file);
  if (done < 0) throw std::runtime_error("cannot shorten " + name);
}

struct DatasetSpec {
  std::string name;
  hid_t stored = -1;
  std::vector<hsize_t> extents;
  std::vector<hsize_t> chunk = {};
  int deflate = 0;
};

/// Writes `values` (of the memory type `memory`) as one dataset with HDF5 alone and hands the open dataset to `more`.
inline void write_dataset(hid_t file, DatasetSpec const& spec, hid_t memory, void const* values,
                          std::function<void(hid_t)> const& more = {}) {
  hid_t const space = H5Screate_simple(int(spec.extents.size()), spec.extents.data(), nullptr);
  hid_t const creation = H5Pcreate(H5P_DATASET_CREATE);
  if (!spec.chunk.empty()) H5Pset_chunk(creation, int(spec.chunk.size()), spec.chunk.data());
  if (spec.deflate > 0) {
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, unsigned(spec.deflate));
  }
  hid_t const dataset = H5Dcreate2(file, spec.name.c_str(), spec.stored, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  herr_t const written = H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  if (more) more(dataset);
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Sclose(space);
  if (dataset < 0 || written < 0) throw std::runtime_error("cannot write " + spec.name);
}

inline void write_number(hid_t object, char const* name, hid_t type, hid_t memory, void const* value) {
  hid_t const space = H5Screate(H5S_SCALAR);
  hid_t const attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, memory, value);
  H5Aclose(attribute);
  H5Sclose(space);
}

inline void write_number(hid_t object, char const* name, double value) {
  write_number(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

/// A new HDF5 file, closed at the end.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path const& path)
      : id_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    if (id_ < 0) throw std::runtime_error("cannot create " + path.string());
  }
  NewFile(NewFile const&) = delete;
  NewFile& operator=(NewFile const&) = delete;
  ~NewFile() { H5Fclose(id_); }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
};

}  // namespace graticule::test
