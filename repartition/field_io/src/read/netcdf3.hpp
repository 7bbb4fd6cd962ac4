// SPDX-License-Identifier: BSD-3-Clause
// The header of a netCDF-3 file, as far as needed to say how it can be converted.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace graticule::detail {

/// Variables whose `_FillValue` has another type than the variable: netCDF-4 forbids that, and nccopy then fails.
/// Empty when there is none or when the header makes no sense.
/// Source: NetCDF Classic Format Specification (Unidata), appendix B of the netCDF user guide.
[[nodiscard]] std::vector<std::string> netcdf3_wrong_fill_values(std::filesystem::path const& path);

}  // namespace graticule::detail
