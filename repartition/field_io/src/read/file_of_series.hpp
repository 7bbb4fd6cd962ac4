// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/file.hpp>

namespace graticule::detail {

/// What a series changes of a file: it reads times of another reference date in units of the first file.
struct FileOfSeries {
  static FileContents& contents(FieldFile& file);
};

}  // namespace graticule::detail
