// SPDX-License-Identifier: BSD-3-Clause
// A file or store that this process reads without MPI.
#pragma once

#include <graticule/field_io/contents.hpp>

#include "hdf5/handle.hpp"
#include "hdf5/hyperslab.hpp"
#include "zarr/catalogue.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace graticule::detail {

/// A variable with what is needed to open it.
struct KnownVariable {
  std::shared_ptr<Variable const> variable;  ///< shared by files in which it is the same
  std::uint64_t address = 0;                 ///< of its dataset in an HDF5 file
  std::shared_ptr<std::string const> array;  ///< of a Zarr store
};

/// @pre for all calls and for the end: an `h5::Quiet` lives
class LoneFile {
 public:
  /// @param num_threads that decode chunks
  explicit LoneFile(std::filesystem::path const& path, int num_threads = 1);
  /// The slab's cells as they are stored. @throws without the name of the file
  void read(KnownVariable const& known, Slab const& slab, std::byte* target);

 private:
  int num_threads_;
  h5::File file_;
  std::map<std::string, h5::Object, std::less<>> datasets_;
  std::optional<zarr::OpenStore> store_;  ///< instead of the file
};

/// Changes with the file of this name as this rank sees it: its number, size and time of change.
[[nodiscard]] std::uint64_t file_identity(std::filesystem::path const& path);

}  // namespace graticule::detail
