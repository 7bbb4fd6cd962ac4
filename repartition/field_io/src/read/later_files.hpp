// SPDX-License-Identifier: BSD-3-Clause
// What a series needs to know of the files after its first one.
#pragma once

#include <graticule/partition/comm.hpp>

#include "catalogue.hpp"
#include "source.hpp"

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule::detail {

struct LaterFile {
  /// Of the file. Nothing where it cannot be listed.
  std::optional<Catalogue> catalogue;
  /// By dimensions of the first file, in its units of time.
  std::map<std::string, std::vector<double>, std::less<>> coordinates;
  std::exception_ptr failure;  ///< why there is no catalogue, or not all coordinates
};

/// Reads structures and coordinates of files by rank 0, which sends them to all at once: a series of a thousand small
/// files would otherwise wait for some twenty collective calls for each. Ends with the first file that cannot be
/// listed. Collective.
/// @param first file's contents, whose `dimension` is joined
[[nodiscard]] std::vector<LaterFile> read_later_files(Comm const& comm, std::span<std::filesystem::path const> paths,
                                                      FilterPlugins plugins, FileContents const& first,
                                                      std::string const& dimension);

/// A variable with what is needed to open it.
struct KnownVariable {
  std::shared_ptr<Variable const> variable;  ///< shared by files in which it is the same
  VariablePlace place;
};

/// The variables of a file of a series, for `SeriesReader`.
struct KnownFile {
  std::uint64_t identity = 0;  ///< `file_identity` before it was listed
  std::map<std::string, KnownVariable, std::less<>> variables;
};
using KnownFiles = std::vector<std::optional<KnownFile>>;

/// Those that can be read and that the first file has, too. @param before another file of the series, if any
[[nodiscard]] KnownFile known_file(Catalogue const& catalogue, FileContents const& first, KnownFile const* before);

}  // namespace graticule::detail
