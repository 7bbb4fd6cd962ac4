// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/fields.hpp>

#include <gtest/gtest.h>

#include <string>

namespace graticule::models {
namespace {

TEST(ChannelOf, has_the_parity_of_the_feature_across_a_pole) {
  struct Row {
    Feature feature;
    Parity parity;
    std::string name;
    Parity expected;
  };
  // Of a scalar, and of a component of a vector.
  for (auto const& row :
       {Row{Feature::value, Parity::even, "t", Parity::even}, Row{Feature::east, Parity::even, "d/dx t", Parity::odd},
        Row{Feature::north, Parity::even, "d/dy t", Parity::odd}, Row{Feature::value, Parity::odd, "t", Parity::odd},
        Row{Feature::east, Parity::odd, "d/dx t", Parity::even},
        Row{Feature::north, Parity::odd, "d/dy t", Parity::even}}) {
    FieldInfo info;
    info.name = "t";
    info.parity = row.parity;

    auto const channel = channel_of(row.feature, info);

    EXPECT_EQ(channel.name, row.name);
    EXPECT_EQ(channel.parity, row.expected) << row.name;
  }
}

}  // namespace
}  // namespace graticule::models
