// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace graticule {
namespace test_replicas {

using test::rule_of;
using test::thrown_by;

std::vector<std::string> names_of(nn::NamedTensors const& tensors) {
  std::vector<std::string> names;
  for (auto const& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST(Replicas, are_listed_in_order_of_registration_and_once_where_modules_share_one) {
  torch::nn::Linear shared(2, 2);
  torch::nn::Sequential model(shared, torch::nn::BatchNorm1d(2), shared);

  EXPECT_EQ(names_of(nn::parameters_of(*model)),
            (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias"}));
  EXPECT_EQ(names_of(nn::detail::buffers_of(*model)),
            (std::vector<std::string>{"1.running_mean", "1.running_var", "1.num_batches_tracked"}));
  EXPECT_TRUE(nn::parameters_of(*model)[0].second.is_same(shared->weight));
}

TEST(Replicas, must_have_the_same_number_names_shapes_and_types) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no replica";
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  auto const plain = torch::zeros({2, 3});
  auto const refused = [&](nn::NamedTensors const& other) {
    return rule_of([&] { nn::detail::require_replicas(comm, odd_one ? other : nn::NamedTensors{{"a", plain}}); });
  };

  EXPECT_EQ(refused({{"a", torch::ones({2, 3})}}), "nothing was thrown");
  EXPECT_EQ(refused({{"b", plain}}), "ReplicaMismatch");
  EXPECT_EQ(refused({{"a", plain.t()}}), "ReplicaMismatch");
  EXPECT_EQ(refused({{"a", plain.to(torch::kHalf)}}), "ReplicaMismatch");
  EXPECT_EQ(refused({}), "ReplicaMismatch");
  EXPECT_EQ(refused({{"a", plain}, {"b", plain}}), "ReplicaMismatch");
}

TEST(Replicas, are_given_the_first_ranks_bits_in_place) {
  auto const comm = Comm::world();
  auto const own = [&](torch::Dtype type) { return torch::full({3, 2}, comm.rank() + 3, type); };
  auto const nan = torch::full({2}, comm.rank() == 0 ? std::nan("7") : 1.0, torch::kDouble);
  auto const strided = own(torch::kFloat).t();
  nn::NamedTensors const tensors{{"half", own(torch::kHalf)},
                                 {"long", own(torch::kLong)},
                                 {"strided", strided},
                                 {"nan", nan},
                                 {"empty", torch::zeros({0, 4})}};

  nn::detail::broadcast_replicas(comm, tensors);

  EXPECT_TRUE(torch::equal(tensors[0].second, torch::full({3, 2}, 3, torch::kHalf)));
  EXPECT_TRUE(torch::equal(tensors[1].second, torch::full({3, 2}, 3, torch::kLong)));
  EXPECT_TRUE(torch::equal(strided, torch::full({2, 3}, 3.0F)));
  EXPECT_TRUE(nan.isnan().all().item<bool>());
  EXPECT_EQ(rule_of([&] { nn::require_same_bits(comm, tensors); }), "nothing was thrown");
}

TEST(Replicas, that_differ_in_one_bit_are_named_on_all_ranks) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no replica";
  auto const zero = torch::zeros({5});
  auto other = torch::zeros({5});
  if (comm.rank() == comm.num_ranks() - 1) other[4] = -0.0;

  auto const thrown = thrown_by([&] { nn::require_same_bits(comm, {{"same", zero}, {"other", other}}); });

  EXPECT_EQ(thrown.rule, "ReplicaMismatch");
  EXPECT_NE(thrown.text.find("other"), std::string::npos) << thrown.text;
  EXPECT_EQ(thrown.text.find("same "), std::string::npos) << thrown.text;
}

}  // namespace test_replicas
}  // namespace graticule
