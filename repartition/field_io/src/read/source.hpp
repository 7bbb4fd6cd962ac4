// SPDX-License-Identifier: BSD-3-Clause
// Files that are read, whatever their format: the one place that tells formats from each other.
#pragma once

#include <graticule/partition/comm.hpp>

#include "catalogue.hpp"
#include "hdf5/hyperslab.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace graticule::detail {

/// A file or store, open for reading. Its errors do not name it.
class Source {
 public:
  Source() = default;
  Source(Source const&) = delete;
  Source& operator=(Source const&) = delete;
  virtual ~Source() = default;

  /// Reads the slab's cells as they are stored, or takes part in a collective call without any.
  using ReadCells = std::function<void(std::optional<Slab> const& slab, std::byte* target)>;

  /// How the cells of a variable are read. Collective where ranks have opened the file together.
  /// @pre an `h5::Quiet` lives; `variable` and `place` outlive the result
  [[nodiscard]] virtual ReadCells reader_of(Variable const& variable, VariablePlace const& place) = 0;
};

struct SourceOptions {
  Comm const* comm = nullptr;   ///< ranks that open the file together; without it this process by itself
  bool calls_together = false;  ///< they read uncompressed cells in one call
  int num_threads = 1;          ///< that decode chunks
};

struct Format {
  /// Lists a file. Serial. @throws as `read_catalogue`
  Catalogue (*list)(std::filesystem::path const& path, FilterPlugins plugins, Structure kind);
  /// Opens a file that was listed. Collective where there is a communicator.
  std::unique_ptr<Source> (*open)(std::filesystem::path const& path, SourceOptions const& options);
  /// The file that tells whether two copies have the same contents.
  std::filesystem::path (*witness)(std::filesystem::path const& path);
};

[[nodiscard]] Format const& format_of(std::filesystem::path const& path);

/// Changes with the file of this name as this rank sees it: its number, size and time of change.
[[nodiscard]] std::uint64_t file_identity(std::filesystem::path const& path);

}  // namespace graticule::detail
