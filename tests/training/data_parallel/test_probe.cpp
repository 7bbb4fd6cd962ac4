// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/data_parallel/probe.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace graticule {
namespace test_probe {

using nn::Reduction;
using test::copy_of;
using test::loss_of;
using test::Net;
using test::parameter_difference;
using test::part_of;
using test::whole_batch;

TEST(FindWrongRules, finds_each_rule_that_is_wrong_and_its_factor) {
  auto const comm = Comm::world();
  std::vector<nn::TeamRule> const mean{{comm, Reduction::mean}};
  std::vector<nn::TeamRule> const sum{{comm, Reduction::sum}};
  for (auto const type : {torch::kDouble, torch::kFloat}) {
    torch::manual_seed(4);
    Net net;
    net->to(type);
    training::DataParallel parallel(*net, {}, mean, {.own_rules = {{"first.weight", sum}, {"scale", sum}}});
    auto const before = copy_of(net);
    auto const batch = [&] {
      auto [x, y] = whole_batch(0, 4 * comm.num_ranks());
      return std::pair(x.to(type), y.to(type));
    }();

    auto const wrong = training::find_wrong_rules(
        parallel, [&] { loss_of(net, part_of(batch, comm)).backward(); },
        [&] { return loss_of(net, batch).item<double>(); });

    EXPECT_EQ(parameter_difference(*net, *before), 0);
    if (comm.num_ranks() == 1) {
      EXPECT_TRUE(wrong.empty());
      continue;
    }
    ASSERT_EQ(wrong.size(), 2U);
    EXPECT_EQ(wrong[0].parameter, "scale");
    EXPECT_EQ(wrong[1].parameter, "first.weight");
    for (auto const& found : wrong) EXPECT_NEAR(found.factor, comm.num_ranks(), 0.1 * comm.num_ranks());
  }
}

}  // namespace test_probe
}  // namespace graticule
