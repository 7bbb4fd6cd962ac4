// SPDX-License-Identifier: BSD-3-Clause
// Gradients that travel in narrow types, and as products of thin matrices.
#include <graticule/training/data_parallel/gradient_wire.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "numbers.hpp"
#include "replicated_net.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace graticule {
namespace test_gradient_wire {

using nn::Reduction;
using test::Holder;
using test::mean_over;
using test::numbers;
using test::rule_of;
using training::DataParallelOptions;

/// A matrix of 40 x 30, one in more axes that is too small to be thin, and a vector.
struct Trained {
  explicit Trained(DataParallelOptions const& options, Reduction reduction = Reduction::mean)
      : matrix(holder.add("matrix", torch::zeros({40, 5, 6}, torch::kDouble))),
        small(holder.add("small", torch::zeros({3, 2, 2}, torch::kDouble))),
        vector(holder.add("vector", torch::zeros({7}, torch::kDouble))),
        parallel(holder, {}, {{comm, reduction}}, options) {}

  /// The reduced gradients of what has these gradients on this rank.
  std::vector<torch::Tensor> reduced(torch::Tensor const& of_matrix, torch::Tensor const& of_small,
                                     torch::Tensor const& of_vector) {
    holder.zero_grad();
    ((matrix * of_matrix).sum() + (small * of_small).sum() + (vector * of_vector).sum()).backward();
    return {matrix.grad().clone(), small.grad().clone(), vector.grad().clone()};
  }
  /// Random ones, of full rank, by iteration.
  std::vector<torch::Tensor> reduced(int iteration) {
    auto const seed = std::uint64_t(100 * iteration + 10 * comm.rank());
    return reduced(numbers(seed, {40, 5, 6}), numbers(seed + 1, {3, 2, 2}), numbers(seed + 2, {7}));
  }

  Comm comm = Comm::world();
  Holder holder;
  torch::Tensor matrix;
  torch::Tensor small;
  torch::Tensor vector;
  training::DataParallel parallel;
};

double difference(torch::Tensor const& a, torch::Tensor const& b) { return (a - b).abs().max().item<double>(); }

TEST(Wire, sends_narrow_words_and_adds_them_in_f32) {
  auto const comm = Comm::world();
  for (auto const type : {torch::kFloat, torch::kDouble, torch::kComplexDouble})
    for (auto const wire : {training::Wire::bf16, training::Wire::f16}) {
      Holder holder;
      auto const a = holder.add("a", torch::zeros({1000}, type));
      training::DataParallel parallel(holder, {}, {{comm, Reduction::mean}}, {.wire = wire});
      auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
      auto const all = torch::randn({comm.num_ranks(), 1000}, generator, torch::kDouble) + 3;
      // A gradient that one rank has lost must not look like a number.
      auto mine = all[comm.rank()].clone();
      if (comm.rank() == 0) mine[7] = std::nan("");

      torch::real((a * mine.to(type)).sum()).backward();

      auto const grad = torch::real(a.grad()).to(torch::kDouble);
      auto const expected = all.mean(0);
      auto error = ((grad - expected) / expected.abs()).abs();
      EXPECT_EQ(a.grad().scalar_type(), type);
      EXPECT_TRUE(grad[7].isnan().item<bool>());
      error[7] = 0;
      EXPECT_LE(error.max().item<double>(), wire == training::Wire::bf16 ? 0.03 : 0.004);
      EXPECT_GT(error.max().item<double>(), comm.num_ranks() > 1 ? 1e-5 : -1.0);
      EXPECT_EQ(rule_of([&] { nn::require_same_bits(comm, {{"grad", a.grad().nan_to_num()}}); }), "nothing was thrown");
      // Each rank gives away all parts but its own, and its sum to all: each number twice, in 2 bytes.
      if (comm.num_ranks() > 1) {
        EXPECT_EQ(parallel.traffic()[0].messages, 2 * (comm.num_ranks() - 1));
        EXPECT_LE(parallel.traffic()[0].bytes, 2 * 2 * 1003 * (type == torch::kComplexDouble ? 2 : 1));
      }
    }
}

TEST(LowRankGradients, give_sums_of_low_rank_as_they_are_and_send_few_numbers) {
  auto const comm = Comm::world();
  for (auto const reduction : {Reduction::mean, Reduction::sum}) {
    Trained trained(
        {.order = training::SumOrder::any, .low_rank = training::LowRankGradients{.rank = 2, .first_iterations = 0}},
        reduction);
    auto const factor = reduction == Reduction::sum ? comm.num_ranks() : 1;
    for (int iteration = 0; iteration < 3; ++iteration) {
      auto const seed = std::uint64_t(10 * iteration);
      // Left factors that all ranks share.
      auto const mine =
          numbers(seed, {40, 2}).matmul(numbers(seed + 100 + std::uint64_t(comm.rank()), {2, 30})).view({40, 5, 6});
      auto const other = torch::full({3, 2, 2}, double(comm.rank()), torch::kDouble);
      auto const vector = torch::full({7}, 1.0 + comm.rank(), torch::kDouble);

      auto const found = trained.reduced(mine, other, vector);

      // The last left factor may nearly miss what this sum needs.
      EXPECT_LE(difference(found[0], mean_over(comm, mine) * factor), 1e-9);
      EXPECT_LE(difference(found[1], mean_over(comm, other) * factor), 1e-14);
      EXPECT_LE(difference(found[2], mean_over(comm, vector) * factor), 1e-14);
    }
    // Thin factors, what is in no matrix, and three flags a parameter and rank: missing, there; failed.
    Index const thin = 2 * (40 + 30) + 12 + 7 + 2 * 3 + 1;
    EXPECT_EQ(trained.parallel.traffic()[0].bytes, comm.num_ranks() > 1 ? 8 * thin : 0);
    nn::require_same_bits(comm, {{"matrix", trained.matrix.grad()}});
  }
}

TEST(LowRankGradients, lose_nothing_but_what_they_keep) {
  auto const comm = Comm::world();
  Trained trained({.low_rank = training::LowRankGradients{.rank = 1, .first_iterations = 2}});
  auto given = torch::zeros({40, 30}, torch::kDouble);
  auto wanted = torch::zeros({40, 30}, torch::kDouble);
  for (int iteration = 0; iteration < 12; ++iteration) {
    auto const found = trained.reduced(iteration);
    auto const exact = mean_over(comm, numbers(std::uint64_t(100 * iteration + 10 * comm.rank()), {40, 30}));
    given += found[0].view({40, 30});
    wanted += exact;
    // At first all travels whole.
    EXPECT_EQ(difference(found[0].view({40, 30}), exact) < 1e-14, iteration < 2 || comm.num_ranks() == 1) << iteration;
  }
  auto error = torch::zeros({40, 30}, torch::kDouble);
  for (auto const& [name, tensor] : trained.parallel.low_rank_state())
    if (name == "matrix/0/error") error = tensor;
  EXPECT_LE(difference(given + mean_over(comm, error), wanted), 1e-12);
  EXPECT_EQ(error.abs().max().item<double>() > 0.1, comm.num_ranks() > 1);
}

TEST(LowRankGradients, go_on_with_what_they_have_kept) {
  bool const several = Comm::world().num_ranks() > 1;
  DataParallelOptions const options{.order = training::SumOrder::by_rank,
                                    .low_rank = training::LowRankGradients{.rank = 2, .first_iterations = 1}};
  Trained whole(options);
  Trained first(options);
  for (int iteration = 0; iteration < 4; ++iteration) {
    (void)whole.reduced(iteration);
    (void)first.reduced(iteration);
  }
  auto const state = first.parallel.low_rank_state();
  Trained resumed(options);
  Trained fresh(options);

  resumed.parallel.load_low_rank_state(state);

  for (int iteration = 4; iteration < 7; ++iteration) {
    auto const expected = whole.reduced(iteration);
    EXPECT_LE(difference(resumed.reduced(iteration)[0], expected[0]), 1e-12) << iteration;
    EXPECT_EQ(difference(fresh.reduced(iteration)[0], expected[0]) > 1e-3, several) << iteration;
  }
  auto other = options;
  other.low_rank->rank = 1;
  Trained thinner(other);
  EXPECT_EQ(rule_of([&] { thinner.parallel.load_low_rank_state(state); }),
            several ? "StateMismatch" : "nothing was thrown");
}

TEST(LowRankGradients, keep_nothing_of_an_iteration_that_failed) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  DataParallelOptions const options{.order = training::SumOrder::by_rank,
                                    .low_rank = training::LowRankGradients{.rank = 2, .first_iterations = 0}};
  Trained smooth(options);
  Trained broken(options);
  (void)smooth.reduced(0);
  (void)broken.reduced(0);

  EXPECT_ANY_THROW(broken.parallel.run([&] {
    if (odd_one) throw std::runtime_error("no batch");
    (void)broken.reduced(1);
  }));

  auto const expected = smooth.reduced(2);
  EXPECT_LE(difference(broken.reduced(2)[0], expected[0]), 1e-12);
  // What a failed pass had under way was given up with its communicators.
  test::forgive_left_objects();
}

TEST(LowRankGradients, keep_all_of_a_gradient_that_no_rank_has) {
  Trained trained({.unused = training::Unused::allowed,
                   .order = training::SumOrder::by_rank,
                   .low_rank = training::LowRankGradients{.rank = 1, .first_iterations = 0}});
  (void)trained.reduced(0);
  auto const before = trained.parallel.low_rank_state();
  trained.holder.zero_grad();

  (trained.vector * 2).sum().backward();

  EXPECT_FALSE(trained.matrix.grad().defined());
  auto const after = trained.parallel.low_rank_state();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 1; i < after.size(); ++i) EXPECT_TRUE(torch::equal(after[i].second, before[i].second));
}

TEST(LowRankGradients, are_refused_with_options_that_mean_nothing_or_differ) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  auto const rule = [](training::LowRankGradients const& low) { return rule_of([&] { Trained({.low_rank = low}); }); };

  EXPECT_EQ(rule({.rank = odd_one ? 0 : 1}), "BadOption");
  EXPECT_EQ(rule({.least_saving = odd_one ? 0.0 : 1.0}), "BadOption");
  EXPECT_EQ(rule({.first_iterations = -1}), "BadOption");
  EXPECT_EQ(rule({.seed = odd_one ? 1U : 0U}), comm.num_ranks() > 1 ? "ArgumentDisagreement" : "nothing was thrown");
}

}  // namespace test_gradient_wire
}  // namespace graticule
