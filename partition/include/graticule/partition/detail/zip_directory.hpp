// SPDX-License-Identifier: BSD-3-Clause
// The members of a zip archive, with and without ZIP64: APPNOTE.TXT of PKWARE, version 6.3, sections 4.3 and 4.5.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace graticule::detail {

struct ZipMember {
  std::string name;
  std::uint64_t header = 0;  ///< place of its own header in the file
  std::uint64_t bytes = 0;   ///< in the file
  std::uint32_t checksum = 0;
  bool is_stored = true;  ///< as it is, not compressed
};

/// An archive of so many bytes.
struct ZipFile {
  std::uint64_t bytes = 0;
  std::function<std::string(std::uint64_t offset, std::uint64_t count)> read;  ///< of bytes that it has
};

/// In the order of the directory, which may have a name twice. Members lie within the file as far as the directory
/// tells. @throws `BrokenFile` (input), without the name of the file
[[nodiscard]] std::vector<ZipMember> zip_members(ZipFile const& file);

/// Where the bytes of a member begin, all of which the file has. @throws `BrokenFile` (input), with the member's name
[[nodiscard]] std::uint64_t zip_offset(ZipFile const& file, ZipMember const& member);

}  // namespace graticule::detail
