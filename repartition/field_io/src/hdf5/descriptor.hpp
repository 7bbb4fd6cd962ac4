// SPDX-License-Identifier: BSD-3-Clause
// Open files of one process, without MPI-IO and HDF5.
#pragma once

#include <graticule/partition/indices.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

namespace graticule::detail {

/// An open file that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int id) noexcept : id_(id) {}
  Descriptor(Descriptor&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int get() const noexcept { return id_; }

  /// All bytes or an error. @return the reason of the error, empty when there is none
  [[nodiscard]] std::string write(std::byte const* data, Index bytes, Index offset) const;
  [[nodiscard]] std::string read(std::byte* data, Index bytes, Index offset) const;

 private:
  int id_ = -1;
};

/// What the system says of an error code, nothing for 0.
[[nodiscard]] std::string system_reason(int code);

/// @throws `OutputError`
[[nodiscard]] Descriptor open_to_write(std::filesystem::path const& path);
/// @throws `UnreadableFile` (input)
[[nodiscard]] Descriptor open_to_read(std::filesystem::path const& path);
/// @throws `OutputError`
void sync_to_disk(Descriptor const& file, std::filesystem::path const& path);

}  // namespace graticule::detail
