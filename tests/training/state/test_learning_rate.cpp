// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/schedule/learning_rate.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace graticule {
namespace test_learning_rate {

using training::Schedule;
using Kind = training::Schedule::Kind;

TEST(Schedule, follows_its_formula) {
  struct Case {
    Schedule schedule;
    Index step;
    double factor;
  };
  for (auto const& [schedule, step, factor] : std::vector<Case>{
           {{.kind = Kind::constant, .num_steps = 10}, 7, 1},
           {{.kind = Kind::constant, .num_steps = 10, .warmup_steps = 3}, 0, 0.25},
           {{.kind = Kind::constant, .num_steps = 10, .warmup_steps = 3}, 3, 1},
           {{.kind = Kind::linear, .num_steps = 10}, 4, 0.6},
           {{.kind = Kind::linear, .num_steps = 10, .final_factor = 0.5}, 10, 0.5},
           {{.kind = Kind::linear, .num_steps = 10, .final_factor = 0.5}, 99, 0.5},
           {{.kind = Kind::cosine, .num_steps = 10}, 0, 1},
           {{.kind = Kind::cosine, .num_steps = 10, .final_factor = 0.2}, 5, 0.6},
           {{.kind = Kind::cosine, .num_steps = 10, .warmup_steps = 1}, 0, 0.5},
           {{.kind = Kind::steps, .num_steps = 10, .period = 3, .gamma = 0.5}, 5, 0.5},
           {{.kind = Kind::steps, .num_steps = 10, .period = 3, .gamma = 0.5}, 6, 0.25},
           {{.kind = Kind::exponential, .num_steps = 10, .period = 2, .gamma = 0.25}, 3, 0.125},
       })
    EXPECT_NEAR(schedule.factor(step), factor, 1e-15) << int(schedule.kind) << " at " << step;
}

TEST(Schedule, refuses_what_has_no_meaning) {
  for (auto const& schedule : {Schedule{.num_steps = 0}, Schedule{.warmup_steps = -1}, Schedule{.final_factor = -0.1},
                               Schedule{.period = 0}, Schedule{.gamma = std::numeric_limits<double>::quiet_NaN()}})
    EXPECT_EQ(test::rule_of([&] { (void)schedule.factor(0); }), "BadOption");
  EXPECT_EQ(test::rule_of([&] { (void)Schedule{}.factor(-1); }), "BadOption");
}

TEST(Schedule, sets_the_rate_of_all_groups) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{torch::zeros({1}, torch::requires_grad())});
  groups.emplace_back(std::vector<torch::Tensor>{torch::zeros({2}, torch::requires_grad())});
  torch::optim::SGD optimizer(groups, torch::optim::SGDOptions(1));

  training::set_learning_rate(optimizer, 0.125);

  for (auto const& group : optimizer.param_groups()) EXPECT_EQ(group.options().get_lr(), 0.125);
}

TEST(ScheduleKinds, are_known_by_their_names) {
  EXPECT_EQ(training::Schedule::kinds().size(), 5U);
  EXPECT_EQ(training::Schedule::kinds().at("cosine"), Kind::cosine);
}

}  // namespace test_learning_rate
}  // namespace graticule
