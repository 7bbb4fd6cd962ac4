// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/models/model_kind.hpp>

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace graticule::models {
namespace {

TEST(ModelKinds, have_the_names_of_the_option) {
  std::map<std::string, ModelKind> const names{{"convnet", ModelKind::convnet},
                                               {"unet", ModelKind::unet},
                                               {"sfno", ModelKind::sfno},
                                               {"window", ModelKind::window}};

  EXPECT_EQ(model_kinds(), names);
  for (auto const& [name, kind] : names) EXPECT_EQ(to_string(kind), name);
}

TEST(ModelKinds, leave_out_the_kind_whose_name_is_that_of_a_file) {
  EXPECT_EQ(to_string(ModelKind::program), "program");
  EXPECT_EQ(model_kinds().count("program"), 0U);
}

}  // namespace
}  // namespace graticule::models
