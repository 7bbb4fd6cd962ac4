// SPDX-License-Identifier: BSD-3-Clause
#include "png.hpp"

#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/partition/error.hpp>

#include <string>

namespace graticule::app {

namespace {

/// Called by C code, which no exception may leave.
cairo_status_t append(void* bytes, unsigned char const* data, unsigned int length) {
  try {
    static_cast<std::string*>(bytes)->append(reinterpret_cast<char const*>(data), length);
  } catch (...) {
    return CAIRO_STATUS_NO_MEMORY;
  }
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

// Through memory: cairo does not say why it could not write to a file.
void write_png(cairo_surface_t* surface, std::filesystem::path const& path) {
  cairo_surface_flush(surface);
  std::string bytes;
  if (auto const status = cairo_surface_write_to_png_stream(surface, append, &bytes); status != CAIRO_STATUS_SUCCESS)
    throw Error("OutputError", path.string() + " cannot be drawn: " + cairo_status_to_string(status));
  write_complete_file(path, bytes);
}

}  // namespace graticule::app
