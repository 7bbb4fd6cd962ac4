// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>

#include "read/structure_process.hpp"

#include <filesystem>

namespace graticule::detail {

/// What one process is to read.
struct Request {
  Structure kind = Structure::contents;
  FilterPlugins plugins = FilterPlugins::refused;
  std::filesystem::path folder;  ///< where relative paths begin
  std::filesystem::path path;
};

/// Reads the file and sends what it holds, or the error, to `pipe`. Ends the process when nobody reads that.
void answer(Request const& request, int pipe);

}  // namespace graticule::detail
