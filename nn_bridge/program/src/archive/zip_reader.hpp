// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace graticule::program::detail {

/// Reads the records of a ZIP archive whose records are stored as they are, with and without ZIP64.
///
/// LibTorch's own reader compares no checksums, and looks for a record by comparing names one by one, which takes
/// minutes for 300,000 of them. Names are without the folder in which PyTorch puts all records.
class ZipReader {
 public:
  /// Reads the directory of the archive.
  /// @throws Error `BrokenFile`, without the path
  explicit ZipReader(std::filesystem::path const& path);

  /// In the order of the directory.
  [[nodiscard]] std::vector<std::string> const& records() const noexcept { return names_; }
  [[nodiscard]] bool has(std::string const& record) const { return entries_.contains(record); }
  /// @throws Error `BrokenFile` for a record that is missing
  [[nodiscard]] std::size_t bytes(std::string const& record) const;
  /// Copies the content of a record, and compares its checksum.
  /// @param target room for `bytes` @throws Error `BrokenFile` with the record's name
  void read(std::string const& record, void* target);

 private:
  struct Entry {
    std::uint64_t header = 0;  // offset in the file
    std::uint64_t bytes = 0;
    std::uint32_t checksum = 0;
  };
  struct Directory {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
  };

  [[nodiscard]] std::string piece(std::uint64_t offset, std::uint64_t count);
  [[nodiscard]] Directory find_directory();
  void read_directory(Directory const& directory);
  [[nodiscard]] Entry const& entry(std::string const& record) const;

  std::ifstream file_;
  std::uint64_t file_bytes_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace graticule::program::detail
