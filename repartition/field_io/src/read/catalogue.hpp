// SPDX-License-Identifier: BSD-3-Clause
// A file's contents with what is needed to open its datasets, and as bytes that one rank sends to the others.
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/partition/comm.hpp>

#include "hdf5/handle.hpp"
#include "hdf5/undo_file.hpp"
#include "structure_process.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace graticule::detail {

/// Where a variable lies, for the `Source` of its format.
struct VariablePlace {
  std::uint64_t address = 0;                 ///< of its dataset in an HDF5 file
  std::shared_ptr<std::string const> array;  ///< of a Zarr store
};

struct Catalogue {
  FileContents contents;
  std::vector<VariablePlace> places;  ///< of each variable
  std::vector<ByteRange> unchanged;   ///< cells that an append leaves alone, for `Structure::growing`
};

/// Callbacks during the listing of a file.
struct ListingWatch {
  /// What is read next: "variable z".
  std::function<void(std::string const&)> reads = [](std::string const&) {};
  /// An open dataset. The variable cannot be read when this throws.
  std::function<void(hid_t, Variable const&)> opened = [](hid_t, Variable const&) {};
};

/// Lists the file in this process, which a damaged one may crash.
[[nodiscard]] Catalogue list_catalogue(std::filesystem::path const& path, FilterPlugins plugins,
                                       ListingWatch const& watch = {});

/// As the public `read_contents`: by a process that may crash. Serial.
/// A file that an append has left incomplete is restored first.
/// @param kind `contents` or `growing`
[[nodiscard]] Catalogue read_catalogue(std::filesystem::path const& path, FilterPlugins plugins,
                                       Structure kind = Structure::contents);

/// The same, listed by rank 0, which sends the list, or the error, to all. Collective.
[[nodiscard]] Catalogue shared_catalogue(Comm const& comm, std::filesystem::path const& path, FilterPlugins plugins,
                                         Structure kind = Structure::contents);

[[nodiscard]] std::string to_bytes(Catalogue const& catalogue);
/// @pre `bytes` come from `to_bytes` of the same program
[[nodiscard]] Catalogue catalogue_from_bytes(std::string const& bytes);

}  // namespace graticule::detail
