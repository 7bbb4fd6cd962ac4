// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_field_cuts {

TEST(FieldCuts, are_the_cuts_of_the_fields_that_a_layer_makes) {
  std::mt19937 random(1);
  for (auto const& domain : test::domains()) {
    auto const cuts = test::random_field_cuts(domain, random, {6, 9});
    nn::FourierTransform layer(nn::FourierTransformOptions{.axes = nn::FourierAxes::columns, .field = cuts}, domain);
    auto const rows = layer->part().size();

    auto const field = layer->inverse(torch::zeros({2, rows, 5}, torch::kComplexDouble));

    EXPECT_EQ(field.sizes(), (std::vector<std::int64_t>{2, cuts.rows.size(domain.latitude_part()),
                                                        cuts.columns.size(domain.longitude_part())}));
  }
}

}  // namespace test_field_cuts
}  // namespace graticule
