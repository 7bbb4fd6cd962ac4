// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/detail/managed.hpp>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

namespace graticule {
namespace test_managed {

using training::is_managed;
using training::detail::ParameterNames;
namespace tn = torch::nn;

TEST(Managed, marks_a_module_and_those_below_it_but_not_the_ignored_ones) {
  auto const root = std::make_shared<tn::Module>("root");
  auto const kept = root->register_module("kept", tn::Linear(2, 2));
  auto const ignored = root->register_module("ignored", tn::Sequential(tn::Linear(2, 2)));
  auto const last = root->register_module("last", tn::ReLU());

  training::detail::mark_managed(root, ParameterNames::replaced, {ignored});

  EXPECT_TRUE(is_managed(*root));
  EXPECT_TRUE(is_managed(*kept));
  EXPECT_TRUE(is_managed(*last));
  EXPECT_FALSE(is_managed(*ignored));
  EXPECT_FALSE(is_managed(*ignored->ptr(0)));
  EXPECT_EQ(training::detail::managed_names(*kept), ParameterNames::replaced);
  EXPECT_FALSE(training::detail::managed_names(*ignored));
  EXPECT_FALSE(training::detail::uses_original_parameters(*kept));
}

TEST(Managed, marked_again_has_the_new_names) {
  tn::Linear module(2, 2);
  training::detail::mark_managed(module.ptr(), ParameterNames::replaced);

  training::detail::mark_managed(module.ptr(), ParameterNames::original);

  EXPECT_TRUE(training::detail::uses_original_parameters(*module));
  EXPECT_EQ(training::detail::managed_names(*module), ParameterNames::original);
}

TEST(Managed, ends_where_it_is_taken_away_with_the_module_and_in_clones) {
  tn::Sequential model(tn::Linear(2, 2));
  training::detail::mark_managed(model.ptr(), ParameterNames::original);
  EXPECT_FALSE(is_managed(*model->clone()));

  training::detail::unmark_managed(*model);
  EXPECT_FALSE(is_managed(*model));
  EXPECT_FALSE(is_managed(*model->ptr(0)));

  // A module of the same address later is another one.
  for (int turn = 0; turn < 100; ++turn) {
    auto const module = std::make_shared<tn::LinearImpl>(2, 2);
    EXPECT_FALSE(is_managed(*module));
    training::detail::mark_managed(module, ParameterNames::original);
  }
}

}  // namespace test_managed
}  // namespace graticule
