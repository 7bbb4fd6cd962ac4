// SPDX-License-Identifier: BSD-3-Clause
// The keys of a Zarr store and their bytes: a folder, a zip file whose members are not compressed, or references to
// parts of other files as kerchunk and VirtualiZarr write them (JSON).
#pragma once

#include <graticule/partition/detail/zip_directory.hpp>
#include <graticule/partition/indices.hpp>

#include "hdf5/descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::detail::zarr {

/// Bytes of a key, open for reading.
struct Item {
  std::shared_ptr<Descriptor const> file;
  std::shared_ptr<std::string const> memory;  ///< in place of a file
  Index offset = 0;                           ///< in the file
  Index bytes = 0;
  std::optional<std::uint32_t> checksum = {};  ///< of all bytes

  /// Compares the checksum where all bytes are read. @pre the range lies within the item
  /// @throws `BrokenFile` (input)
  void read(std::byte* data, Index from, Index count) const;
};

/// Whether a folder or a file is a store, by its metadata or its name.
[[nodiscard]] bool is_store(std::filesystem::path const& path);

class Store {
 public:
  /// @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile` (input)
  explicit Store(std::filesystem::path path);

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  /// Nothing where the store has no such key. Symbolic links are not followed: a store could name any file by them.
  /// @throws `UnreadableFile`, `BrokenFile` (input)
  [[nodiscard]] std::optional<Item> find(std::string const& key) const;
  /// All bytes of a key, of metadata. @throws as `find`
  [[nodiscard]] std::optional<std::string> text(std::string const& key) const;
  /// Names of the folders in a folder, sorted; `""` is the store itself.
  [[nodiscard]] std::vector<std::string> folders(std::string const& folder) const;
  /// Where the metadata of an array are now, or what is left of them. Files stay as they were opened; a folder may be
  /// removed, or replaced by another one of its name, and its chunks are then absent, like those that hold fill values.
  enum class Metadata : std::uint8_t { gone, of_store, of_array };
  [[nodiscard]] Metadata metadata_of(std::string const& array) const;

 private:
  /// A part of a file, or bytes within the references.
  struct Reference {
    std::string path;
    std::shared_ptr<std::string const> text;  ///< in place of a path
    Index offset = 0;
    std::optional<Index> bytes;  ///< without it the whole file
  };
  void read_zip(Index size);
  void read_references();
  [[nodiscard]] std::optional<Item> find_in_references(std::string const& key) const;
  [[nodiscard]] std::optional<Item> find_in_zip(std::string const& key) const;
  [[nodiscard]] std::optional<Item> find_in_folder(std::string const& key) const;

  std::filesystem::path path_;
  std::filesystem::path absolute_;  ///< when it was opened
  Descriptor folder_;
  std::shared_ptr<Descriptor const> zip_;
  ZipFile zip_file_;
  std::map<std::string, ZipMember, std::less<>> members_;
  std::map<std::string, Reference, std::less<>> references_;
  mutable std::mutex mutex_;                                                            ///< of `open_`
  mutable std::map<std::string, std::shared_ptr<Descriptor const>, std::less<>> open_;  ///< files of references
};

/// `name` in `folder`, of which `""` is the store itself.
[[nodiscard]] std::string joined(std::string_view folder, std::string_view name);

}  // namespace graticule::detail::zarr
