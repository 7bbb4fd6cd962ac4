// SPDX-License-Identifier: BSD-3-Clause
// The HDF5 structure of a checkpoint that is being written, from which a reader finds the cells. On one rank.
#pragma once

#include "contents.hpp"
#include "hdf5/handle.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace graticule::detail {

/// Groups, datasets without cells, and values. Cells are written by all ranks, without HDF5, at the offsets returned
/// here.
///
/// It stays in memory until `finish`. Without `finish` nothing is written at all: HDF5 cannot be told to forget a file,
/// and when it fails to write one it crashes at the end of the program, so its last writes go to memory instead.
class CheckpointStructure {
 public:
  CheckpointStructure() = default;
  /// Takes over an empty file.
  CheckpointStructure(std::filesystem::path const& path, Index number, Index step);
  CheckpointStructure(CheckpointStructure&&) = default;
  CheckpointStructure& operator=(CheckpointStructure&&) = default;
  ~CheckpointStructure();

  /// @return where the field's cells lie in the file, in bytes
  Index add_field(CheckpointField const& field);
  void add_value(std::string const& name, RawValue const& value);
  /// Notes the checksums of the fields, in order of names, and closes the file.
  void finish(std::vector<std::uint64_t> const& checksums);

 private:
  void make_groups(std::string const& path);
  h5::Dataset make_dataset(std::string const& path, h5::Type const& type, h5::Space const& space,
                           std::vector<Attribute> const& attributes);

  h5::File file_;
  std::map<std::string, h5::Dataset> fields_;
  std::set<std::string> groups_;
};

}  // namespace graticule::detail
