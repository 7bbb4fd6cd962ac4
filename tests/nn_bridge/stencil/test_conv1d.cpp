// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/conv1d.hpp>

#include "conv_comparison.hpp"
#include "expect_error.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_conv1d {

using test::rule_of;

TEST(Conv1d, equals_serial_for_random_cuts_kernels_strides_dilations_and_padding_modes) {
  test::expect_serial_for_random_cases<1>(std::mt19937(23), 9, {13, 5, 3, 2, 4});
}

TEST(Conv1d, equals_serial_with_same_padding_and_even_kernels) {
  test::expect_serial_with_same_padding<1>(std::mt19937(24), {9}, {2, 3, 4});
}

TEST(Conv1d, equals_serial_in_half_width_precision) {
  test::expect_serial_in<1>(torch::kBFloat16, 0.04, std::mt19937(25), {9});
}

TEST(Conv1d, refuses_a_domain_whose_longitude_is_cut_and_other_shapes) {
  auto const comm = Comm::world();
  auto const options = torch::nn::Conv1dOptions(2, 2, 3);
  nn::Conv1d layer(options, test::domains(Boundary::sphere(Edge::pole_face), 1).front());

  if (comm.num_ranks() > 1) {
    nn::Domain const cut(comm, ProcessGrid{1, comm.num_ranks()});
    EXPECT_EQ(rule_of([&] { nn::Conv1d const refused(options, cut); }), "LongitudeIsCut");
  }
  EXPECT_EQ(rule_of([&] { layer(torch::ones({1, 2, 5, 5})); }), "ShapeMismatch");
  EXPECT_EQ(rule_of([&] { layer(torch::Tensor()); }), "UnsupportedTensor");
  EXPECT_EQ(rule_of([&] { layer(torch::ones({1, 2, 5})); }), "nothing was thrown");
}

}  // namespace test_conv1d
}  // namespace graticule
