// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace graticule {

namespace detail {
class Descriptor;
}

/// A file for bytes that do not fit in memory, shared by the ranks of one node.
///
/// It lies in the folder of a file that is to be written, and loses its name as soon as all ranks have opened it:
/// nothing of it is left, however the processes end. A name that a kill in that moment leaves is one of a
/// `TemporaryFile`.
class ScratchFile {
 public:
  /// Collective. @pre all ranks are on one node
  /// @param comm its ranks share the file @param beside the file that is to be written
  /// @throws `OutputError` when the folder of `beside` is missing or not writable
  ScratchFile(Comm const& comm, std::filesystem::path const& beside);

  /// Reserves room for `num_bytes` where the disk holds `num_others` more, which stay free. Collective.
  /// @return why there is no room, the same on all ranks; empty when there is
  [[nodiscard]] std::string reserve(Index num_bytes, Index num_others) const;
  /// Local. @throws `OutputError`: `beside` and the reason
  void write(Index offset, std::span<std::byte const> bytes) const;
  /// Reads what any rank has written before an agreement of all ranks. Local. @throws `OutputError` as `write`
  void read(Index offset, std::span<std::byte> bytes) const;

 private:
  Comm comm_;
  std::filesystem::path beside_;
  std::shared_ptr<detail::Descriptor const> file_;
};

}  // namespace graticule
