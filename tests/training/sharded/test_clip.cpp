// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/data_parallel/wrapper.hpp>
#include <graticule/training/detail/clip.hpp>

#include "expect_error.hpp"
#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace graticule {
namespace test_clip {

using nn::Reduction;
using test::copy_of;
using test::gradient_difference;
using test::Holder;
using test::loss_of;
using test::Net;
using test::part_of;
using test::rule_of;
using test::whole_batch;

TEST(ClipGradients, equals_the_serial_norm_and_scaling) {
  auto const comm = Comm::world();
  for (double const type : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    Net net;
    training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}});
    auto serial = copy_of(net);
    auto const batch = whole_batch(0, 2 * comm.num_ranks());
    loss_of(net, part_of(batch, comm)).backward();
    loss_of(serial, batch).backward();

    auto const norm = parallel.clip_gradients(0.01, type);

    EXPECT_NEAR(norm, torch::nn::utils::clip_grad_norm_(serial->parameters(), 0.01, type), 1e-12);
    EXPECT_LE(gradient_difference(*net, *serial), 1e-12);
  }
}

TEST(ClipGradients, counts_parts_of_a_parameter_over_their_team) {
  auto const comm = Comm::world();
  Holder holder;
  auto const whole = holder.add("whole", torch::zeros({2}, torch::kDouble));
  auto const part = holder.add("part", torch::zeros({comm.rank()}, torch::kDouble));
  whole.mutable_grad() = torch::tensor({3.0, 4.0}, torch::kDouble);
  part.mutable_grad() = torch::full({comm.rank()}, 2.0, torch::kDouble);
  double const num_parts = comm.num_ranks() * (comm.num_ranks() - 1) / 2.0;
  std::vector<training::detail::ClippedPart> const parts{{{{"whole", whole}}, {}}, {{{"part", part}}, {comm}}};

  EXPECT_NEAR(training::detail::clip_gradients(parts, 1), std::sqrt(25 + 4 * num_parts), 1e-12);

  part.mutable_grad() = torch::full({comm.rank()}, comm.rank() == comm.num_ranks() - 1 ? std::nan("") : 1.0);
  if (comm.num_ranks() > 1) {
    EXPECT_EQ(rule_of([&] { training::detail::clip_gradients(parts, 1, 2, training::NonFinite::refused); }),
              "NotFinite");
  }
  EXPECT_EQ(rule_of([&] { training::detail::clip_gradients(parts, -1); }), "BadOption");
}

TEST(ClipGradients, leaves_gradients_that_are_short_enough_or_refused) {
  Holder holder;
  auto const whole = holder.add("whole", torch::zeros({2}, torch::kDouble));
  whole.mutable_grad() = torch::tensor({3.0, 4.0}, torch::kDouble);
  std::vector<training::detail::ClippedPart> const parts{{{{"whole", whole}}, {}}};

  EXPECT_NEAR(training::detail::clip_gradients(parts, 6), 5, 1e-15);
  EXPECT_TRUE(torch::equal(whole.grad(), torch::tensor({3.0, 4.0}, torch::kDouble)));

  whole.mutable_grad() = torch::tensor({std::nan(""), 4.0}, torch::kDouble);
  EXPECT_EQ(rule_of([&] { training::detail::clip_gradients(parts, 1, 2, training::NonFinite::refused); }), "NotFinite");
  EXPECT_EQ(whole.grad()[1].item<double>(), 4);
  EXPECT_TRUE(std::isnan(training::detail::clip_gradients(parts, 1)));
}

}  // namespace test_clip
}  // namespace graticule
