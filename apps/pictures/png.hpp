// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cairo.h>

#include <filesystem>

namespace graticule::app {

/// Writes what was drawn as a PNG file that is complete or not there. Serial.
/// @throws `OutputError`: with the path and the reason, such as a full disk
void write_png(cairo_surface_t* surface, std::filesystem::path const& path);

}  // namespace graticule::app
