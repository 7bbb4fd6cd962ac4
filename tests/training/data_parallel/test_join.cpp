// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/data_parallel/join.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "expect_error.hpp"
#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace graticule {
namespace test_join {

using nn::Reduction;
using test::copy_of;
using test::loss_of;
using test::Net;
using test::parameter_difference;
using test::part_of;
using test::rule_of;
using test::small_buckets;
using test::whole_batch;
using training::GradientWait;

TEST(Join, lets_ranks_end_at_different_times) {
  auto const comm = Comm::world();
  int const most = comm.num_ranks() + 1;
  auto const num_steps = [&](int rank) { return rank == comm.num_ranks() - 1 ? most : rank + 1; };
  for (auto const divisor : {training::JoinDivisor::all_ranks, training::JoinDivisor::active_ranks})
    for (auto const wait : {GradientWait::in_backward, GradientWait::late}) {
      torch::manual_seed(2);
      Net net;
      torch::optim::SGD sgd(net->parameters(), 0.1);
      training::DataParallel parallel(*net, sgd, {{comm, Reduction::mean}}, {.wait = wait, .buckets = small_buckets});
      auto serial = copy_of(net);
      torch::optim::SGD other(serial->parameters(), 0.1);
      auto const sample = [&](int step, int rank) {
        auto const batch = whole_batch(step, comm.num_ranks());
        return std::pair(batch.first.narrow(0, rank, 1), batch.second.narrow(0, rank, 1));
      };

      training::Join join(parallel, {.divisor = divisor});
      for (int step = 0; step < num_steps(comm.rank()); ++step) {
        sgd.zero_grad();
        loss_of(net, sample(step, comm.rank())).backward();
        parallel.step();
      }
      join.finish();

      for (int step = 0; step < most; ++step) {
        other.zero_grad();
        int num_active = 0;
        for (int rank = 0; rank < comm.num_ranks(); ++rank) num_active += step < num_steps(rank) ? 1 : 0;
        auto const num_counted = divisor == training::JoinDivisor::all_ranks ? comm.num_ranks() : num_active;
        for (int rank = 0; rank < comm.num_ranks(); ++rank)
          if (step < num_steps(rank)) (loss_of(serial, sample(step, rank)) / num_counted).backward();
        other.step();
      }
      EXPECT_LE(parameter_difference(*net, *serial), 1e-12);
      // Even batches again.
      sgd.zero_grad();
      loss_of(net, sample(0, comm.rank())).backward();
      parallel.step();
      parallel.finalize();
      EXPECT_EQ(rule_of([&] { nn::require_same_bits(comm, nn::parameters_of(*net)); }), "nothing was thrown");
    }
}

TEST(Join, refuses_uneven_ends_on_all_ranks_when_asked_to) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank ends alone";
  auto const rule_at_uneven_end = [&](Reduction reduction, training::EarlyEnd early_end) {
    Net net;
    training::DataParallel parallel(*net, {}, {{comm, reduction}});
    training::Join join(parallel, {.early_end = early_end});
    return rule_of([&] {
      for (int step = 0; step < (comm.rank() == 0 ? 1 : 3); ++step)
        loss_of(net, part_of(whole_batch(step, comm.num_ranks()), comm)).backward();
      join.finish();
    });
  };

  EXPECT_EQ(rule_at_uneven_end(Reduction::mean, training::EarlyEnd::refused),
            (test::ErrorWith{"UnevenInputs", "ranks have no more batches"}));
  EXPECT_EQ(rule_at_uneven_end(Reduction::sum, training::EarlyEnd::replayed),
            (test::ErrorWith{"UnevenInputs", "whose gradients are summed"}));
  EXPECT_EQ(rule_at_uneven_end(Reduction::mean, training::EarlyEnd::replayed), "nothing was thrown");
}

TEST(Join, refuses_buffers_that_are_kept_equal_at_each_step) {
  auto const comm = Comm::world();
  torch::nn::BatchNorm1d norm(2);
  training::DataParallel parallel(*norm, {}, {{comm, Reduction::mean}}, {.buffers = training::BufferPolicy::mean});

  EXPECT_EQ(rule_of([&] { training::Join const join(parallel); }), "Unsupported");
}

}  // namespace test_join
}  // namespace graticule
