// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/file.hpp>

#include "catalogue.hpp"

namespace graticule::detail {

/// What a series knows of a file, and changes: it reads times of another reference date in units of the first file.
struct FileOfSeries {
  static FileContents& contents(FieldFile& file);
  static Catalogue catalogue(FieldFile const& file);
};

}  // namespace graticule::detail
