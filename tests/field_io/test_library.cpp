// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/library.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <string>

namespace graticule {
namespace {

TEST(Hdf5Description, names_the_version_and_the_filters_of_the_library) {
  auto const text = hdf5_description();

  auto const version = std::to_string(H5_VERS_MAJOR) + "." + std::to_string(H5_VERS_MINOR) + "." +
                       std::to_string(H5_VERS_RELEASE) + " (parallel; filters ";
  EXPECT_EQ(text.rfind(version, 0), 0U) << text;
  EXPECT_EQ(text.back(), ')') << text;
  EXPECT_EQ(text.find("deflate") != std::string::npos, H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) << text;
  EXPECT_EQ(text.find("szip") != std::string::npos, H5Zfilter_avail(H5Z_FILTER_SZIP) > 0) << text;
  EXPECT_NE(text.find("shuffle, fletcher32"), std::string::npos) << text;
}

}  // namespace
}  // namespace graticule
