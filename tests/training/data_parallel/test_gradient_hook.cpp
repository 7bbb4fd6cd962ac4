// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace graticule {
namespace test_gradient_hook {

using nn::Reduction;
using test::loss_of;
using test::Net;
using test::part_of;
using test::rule_of;
using test::small_buckets;
using test::thrown_by;
using test::whole_batch;

/// The rules' own reduction, by MPI.
std::function<bool()> all_reduce(training::GradientBucket const& bucket) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, bucket.values.mutable_data_ptr(), int(bucket.values.numel()), MPI_DOUBLE,
                           MPI_SUM, bucket.team.handle(), &request),
            "MPI_Iallreduce");
  return [request, bucket]() mutable {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done && bucket.reduction == Reduction::mean) bucket.values.div_(bucket.team.num_ranks());
    return done != 0;
  };
}

/// Three steps of a fresh net.
Net trained(Comm const& comm, training::DataParallelOptions const& options) {
  torch::manual_seed(5);
  Net net;
  torch::optim::SGD sgd(net->parameters(), 0.1);
  training::DataParallel parallel(*net, sgd, {{comm, Reduction::mean}}, options);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    parallel.run([&] { loss_of(net, part_of(whole_batch(step, comm.num_ranks()), comm)).backward(); });
    parallel.step();
  }
  return net;
}

TEST(GradientHook, that_reduces_as_the_rules_do_gives_their_numbers) {
  auto const comm = Comm::world();
  for (auto const wait : {training::GradientWait::in_backward, training::GradientWait::late}) {
    auto const expected = trained(comm, {.wait = wait, .buckets = small_buckets});

    auto const found = trained(comm, {.wait = wait, .buckets = small_buckets, .hook = all_reduce});

    EXPECT_LE(test::parameter_difference(*found, *expected), 1e-14);
  }
}

TEST(GradientHook, is_given_every_gradient_once_and_gives_what_it_leaves) {
  auto const comm = Comm::world();
  Net net;
  std::vector<std::string> seen;
  std::size_t num_buckets = 0;
  training::DataParallel parallel(*net, {}, {{comm, Reduction::sum}},
                                  {.buckets = small_buckets, .hook = [&](training::GradientBucket const& bucket) {
                                     EXPECT_EQ(bucket.index, num_buckets++);
                                     EXPECT_LT(bucket.index, bucket.num_buckets);
                                     for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
                                       seen.push_back(bucket.parameters[i]);
                                       bucket.gradients[i].fill_(7);
                                     }
                                     return [] { return true; };
                                   }});

  parallel.run([&] { loss_of(net, whole_batch(0, 1)).backward(); });

  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(seen.size(), net->parameters().size());
  for (auto const& parameter : net->parameters()) EXPECT_TRUE((parameter.grad() == 7).all().item<bool>());
}

TEST(GradientHook, that_throws_on_one_rank_ends_the_pass_on_all_and_the_next_one_is_right) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  Net net;
  bool throws = false;
  training::DataParallel parallel(*net, {}, {{comm, Reduction::mean}},
                                  {.buckets = small_buckets, .hook = [&](training::GradientBucket const& bucket) {
                                     if (throws && bucket.index == 1) throw std::runtime_error("the hook is broken");
                                     return all_reduce(bucket);
                                   }});
  auto const pass = [&] {
    net->zero_grad();
    return thrown_by(
        [&] { parallel.run([&] { loss_of(net, part_of(whole_batch(0, comm.num_ranks()), comm)).backward(); }); });
  };
  EXPECT_EQ(pass().rule, "nothing was thrown");
  auto const expected = net->first->weight.grad().clone();

  throws = odd_one;
  auto const thrown = pass();
  throws = false;
  auto const after = pass();

  if (!odd_one) {
    EXPECT_EQ(thrown.rule, "PeerFailed");
  }
  EXPECT_NE(thrown.text.find("the hook is broken"), std::string::npos) << thrown.text;
  EXPECT_EQ(after.rule, "nothing was thrown") << after.text;
  EXPECT_LE((net->first->weight.grad() - expected).abs().max().item<double>(), 1e-14);
  // What was under way was given up with its communicator.
  test::forgive_left_objects();
}

TEST(GradientHook, is_refused_beside_what_says_how_gradients_travel) {
  auto const comm = Comm::world();
  Net net;
  auto const rule = [&](training::DataParallelOptions options) {
    options.hook = all_reduce;
    return rule_of([&] { training::DataParallel const parallel(*net, {}, {{comm, Reduction::mean}}, options); });
  };

  EXPECT_EQ(rule({.wire = training::Wire::bf16}), "BadOption");
  EXPECT_EQ(rule({.low_rank = training::LowRankGradients{}}), "BadOption");
  EXPECT_EQ(rule({}), "nothing was thrown");
}

}  // namespace test_gradient_hook
}  // namespace graticule
