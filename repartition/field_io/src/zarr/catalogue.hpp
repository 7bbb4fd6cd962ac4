// SPDX-License-Identifier: BSD-3-Clause
// The contents of a store, as `FieldFile` and `SeriesReader` see them.
#pragma once

#include "json.hpp"
#include "reader.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace graticule::detail::zarr {

struct Listed {
  FileContents contents;
  std::vector<std::string> arrays;  ///< of each variable, for `OpenStore`
};

/// Lists a store: consolidated metadata where it has them, else those of each folder. Serial.
/// @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile`, `UnsupportedFile` (input)
[[nodiscard]] Listed list(std::filesystem::path const& path);

/// A store, open for reading by one process.
class OpenStore {
 public:
  /// @param num_threads that decode chunks @throws as `Store`
  explicit OpenStore(std::filesystem::path const& path, int num_threads = 1)
      : store_(std::make_unique<Store>(path)), num_threads_(num_threads) {}

  /// The slab's cells of a variable in this machine's byte order. @param array of the variable, from
  /// `Listed::arrays`
  /// @throws `BrokenFile`, `UnreadableVariable` (input), without the name of the store
  void read(Variable const& variable, std::string const& array, Slab const& slab, std::byte* target);

 private:
  std::unique_ptr<Store> store_;
  int num_threads_;
  struct Open {
    std::unique_ptr<ArrayReader> reader;
    Json fold;  ///< null for an array that is a variable as it is
  };
  std::map<std::string, Open, std::less<>> readers_;
};

/// The file that tells whether two copies of a store are of the same contents.
[[nodiscard]] std::filesystem::path metadata_file(std::filesystem::path const& path);

}  // namespace graticule::detail::zarr
