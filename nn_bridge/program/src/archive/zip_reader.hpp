// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/detail/zip_directory.hpp>

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
  ZipReader(ZipReader const&) = delete;
  ZipReader& operator=(ZipReader const&) = delete;

  /// In the order of the directory.
  [[nodiscard]] std::vector<std::string> const& records() const noexcept { return names_; }
  [[nodiscard]] bool has(std::string const& record) const { return entries_.contains(record); }
  /// @throws Error `BrokenFile` for a record that is missing
  [[nodiscard]] std::size_t bytes(std::string const& record) const;
  /// Copies the content of a record, and compares its checksum.
  /// @param target room for `bytes` @throws Error `BrokenFile` with the record's name
  void read(std::string const& record, void* target);
  /// The content of a record. @throws Error as `read`
  [[nodiscard]] std::string text(std::string const& record);

 private:
  void read_at(std::uint64_t offset, char* target, std::uint64_t count);
  [[nodiscard]] graticule::detail::ZipMember const& entry(std::string const& record) const;

  std::ifstream file_;
  graticule::detail::ZipFile zip_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, graticule::detail::ZipMember> entries_;
};

}  // namespace graticule::program::detail
