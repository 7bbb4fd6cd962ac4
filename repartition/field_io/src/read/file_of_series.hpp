// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/file.hpp>

#include <string>

namespace graticule::detail {

/// What a series changes of a file: it reads times of another reference date in units of the first file.
struct FileOfSeries {
  /// Values of the variable are read as `value * factor + shift`, in these units. A variable that there is not stays
  /// so.
  static void rescale(FieldFile& file, std::string const& name, double factor, double shift, std::string const& units);
};

}  // namespace graticule::detail
