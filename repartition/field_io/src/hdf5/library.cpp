// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/library.hpp>

#include "handle.hpp"

#include <array>

namespace graticule {

std::string hdf5_description() {
  detail::h5::Quiet const quiet;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  detail::h5::check(H5get_libversion(&major, &minor, &release), "H5get_libversion");
  struct Known {
    H5Z_filter_t id;
    char const* name;
  };
  constexpr std::array known{Known{H5Z_FILTER_DEFLATE, "deflate"},
                             Known{H5Z_FILTER_SHUFFLE, "shuffle"},
                             Known{H5Z_FILTER_FLETCHER32, "fletcher32"},
                             Known{H5Z_FILTER_SZIP, "szip"},
                             Known{H5Z_FILTER_NBIT, "nbit"},
                             Known{H5Z_FILTER_SCALEOFFSET, "scaleoffset"}};
  std::string filters;
  for (auto const& filter : known)
    if (H5Zfilter_avail(filter.id) > 0) filters += (filters.empty() ? "" : ", ") + std::string(filter.name);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release) + " (parallel; filters " +
         filters + ")";
}

}  // namespace graticule
