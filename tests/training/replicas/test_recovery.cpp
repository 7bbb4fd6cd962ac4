// SPDX-License-Identifier: BSD-3-Clause
// A pass that fails on one rank between sharded layers: the others get to know why, and the next pass is right.
#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace graticule {
namespace test_recovery {

using nn::Reduction;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace tn = torch::nn;

/// Identity, whose backward throws where told to.
struct Fragile : torch::autograd::Function<Fragile> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor const& x, bool breaks) {
    ctx->saved_data["breaks"] = breaks;
    return x * 1;
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    if (ctx->saved_data["breaks"].toBool()) throw std::runtime_error("the disk is full");
    return {grads[0], torch::Tensor()};
  }
};

enum class Place { nowhere, at_first, between_layers, in_backward, after_backward };

/// Two sharded convolutions with all that a pass may change between them: running statistics and random masks.
struct NetImpl : tn::Module {
  explicit NetImpl(nn::Domain const& domain)
      : enter(register_module("enter", nn::Unit<nn::Conv2d>(convolution(), domain))),
        norm(register_module("norm", nn::BatchNorm2d(tn::BatchNormOptions(2), domain))),
        dropout(register_module("dropout", nn::Dropout(tn::DropoutOptions(0.3), nn::RandomOptions{}, domain))),
        heights(
            register_module("heights", nn::LayerNorm(tn::LayerNormOptions({8, 6}).elementwise_affine(false), domain))),
        leave(register_module("leave", nn::Unit<nn::Conv2d>(convolution(), domain))) {
    to(torch::kDouble);
    torch::NoGradGuard const no_grad;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t(3));
    for (auto& parameter : parameters())
      parameter.copy_(0.3 * torch::randn(parameter.sizes(), generator, torch::kDouble));
  }
  torch::Tensor forward(torch::Tensor const& x, Place place) {
    auto y = heights(dropout(norm(enter(x))));
    if (place == Place::between_layers) throw std::runtime_error("the disk is full");
    return leave(Fragile::apply(torch::tanh(y), place == Place::in_backward));
  }
  static nn::ConvOptions<2> convolution() { return nn::ConvOptions(tn::Conv2dOptions(2, 2, 3).padding(1)); }

  nn::Unit<nn::Conv2d> enter;
  nn::BatchNorm2d norm;
  nn::Dropout dropout;
  nn::LayerNorm heights;
  nn::Unit<nn::Conv2d> leave;
};
TORCH_MODULE(Net);

struct Accident {
  Place place = Place::nowhere;
  int iteration = -1;
};

struct Outcome {
  std::vector<torch::Tensor> values;  ///< parameters and buffers, at the end
  std::vector<std::string> errors;    ///< of the pass that failed, or of its step
};

/// Trains for six iterations, each of them again where it has failed.
Outcome train(Comm const& comm, Accident const& accident, training::DataParallelOptions const& options) {
  bool const grid = comm.num_ranks() == 4;
  Teams const teams(comm, {{"data", 0}, {"domain", grid ? 2 : comm.num_ranks()}});
  nn::Domain const domain(teams.team("domain"), ProcessGrid{teams.team("domain").num_ranks(), 1});
  auto const rows = balanced_cuts(8, domain.comm().num_ranks());
  Net net(domain);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  training::DataParallel parallel(
      *net, sgd, {{teams.team("domain"), Reduction::sum}, {teams.team("data"), Reduction::mean}}, options);
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  Outcome outcome;
  bool happened = false;
  for (int i = 0; i < 6;) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t(100 + i));
    auto const samples = torch::randn({teams.team("data").num_ranks(), 1, 2, 8, 6}, generator, torch::kDouble);
    auto const x = samples[teams.team("data").rank()]
                       .narrow(-2, rows.lo(domain.comm().rank()), rows.size(domain.comm().rank()))
                       .clone()
                       .requires_grad_();
    bool const now = !happened && i == accident.iteration;
    auto const place = now && odd_one ? accident.place : Place::nowhere;
    happened = happened || now;
    try {
      sgd.zero_grad();
      parallel.run([&] {
        if (place == Place::at_first) throw std::runtime_error("the disk is full");
        nn::reduce_loss(net(x, place).square().sum(), domain).backward();
        if (place == Place::after_backward) throw std::runtime_error("the disk is full");
      });
      parallel.step();
      ++i;
    } catch (Error const& error) {
      outcome.errors.emplace_back(error.what());
    } catch (std::exception const& error) {
      outcome.errors.emplace_back(error.what());
    }
  }
  parallel.finalize();
  for (auto const& parameter : net->parameters()) outcome.values.push_back(parameter.detach().clone());
  for (auto const& buffer : net->buffers()) outcome.values.push_back(buffer.detach().clone());
  return outcome;
}

void expect_recovery(training::DataParallelOptions const& options, std::vector<Place> const& places) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  auto const expected = train(comm, {}, options);
  for (auto const place : places)
    for (int const iteration : {0, 1, 4}) {
      SCOPED_TRACE("place " + std::to_string(int(place)) + ", iteration " + std::to_string(iteration));

      auto const found = train(comm, {place, iteration}, options);

      ASSERT_EQ(found.errors.size(), 1U);
      EXPECT_NE(found.errors[0].find("the disk is full"), std::string::npos) << found.errors[0];
      EXPECT_EQ(found.errors[0].find("PeerFailed") != std::string::npos, !odd_one) << found.errors[0];
      for (std::size_t v = 0; v < expected.values.size(); ++v)
        EXPECT_TRUE(torch::equal(found.values[v], expected.values[v])) << "value " << v;
    }
  // What was under way was given up with its communicator.
  test::forgive_left_objects();
}

TEST(Recovery, gives_the_numbers_of_a_run_without_the_accident) {
  expect_recovery({.buckets = {.first_bytes = 64, .bytes = 200}},
                  {Place::at_first, Place::between_layers, Place::in_backward, Place::after_backward});
}

TEST(Recovery, gives_them_where_calls_are_compared) {
  expect_recovery({.checks = training::CheckedCalls::on}, {Place::between_layers, Place::in_backward});
}

TEST(Recovery, gives_them_where_gradients_are_waited_for_late) {
  expect_recovery({.wait = training::GradientWait::late}, {Place::at_first, Place::between_layers, Place::in_backward});
}

TEST(Recovery, gives_them_where_gradients_travel_as_thin_factors) {
  expect_recovery({.low_rank = training::LowRankGradients{.rank = 1, .least_saving = 0.1, .first_iterations = 2}},
                  {Place::between_layers, Place::in_backward});
}

TEST(Recovery, of_a_domain_that_is_a_part_of_a_team) {
  auto const comm = Comm::world();
  if (comm.num_ranks() != 4) GTEST_SKIP() << "needs 4 ranks";
  auto const half = comm.split(comm.rank() / 2, comm.rank());
  nn::Domain const domain(half, ProcessGrid{2, 1});
  Net net(domain);
  training::DataParallel parallel(*net, {}, {{comm, Reduction::sum}});
  auto const x = torch::ones({1, 2, 4, 6}, torch::kDouble);
  auto const pass = [&](Place place) {
    return test::thrown_by(
        [&] { parallel.run([&] { nn::reduce_loss(net(x, place).square().sum(), domain).backward(); }); });
  };

  auto const thrown = pass(comm.rank() == 3 ? Place::between_layers : Place::nowhere);
  auto const after = pass(Place::nowhere);

  if (comm.rank() != 3) {
    EXPECT_EQ(thrown.rule, "PeerFailed");
  }
  EXPECT_NE(thrown.text.find("the disk is full"), std::string::npos) << thrown.text;
  EXPECT_EQ(after.rule, "nothing was thrown") << after.text;
  test::forgive_left_objects();
}

TEST(Recovery, of_domains_that_one_rank_alone_has_kept) {
  auto const comm = Comm::world();
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
  auto const rows = balanced_cuts(8, comm.num_ranks());
  Net net(domain);
  std::vector<nn::Domain> others;
  for (int i = 0; i < 3; ++i) others.emplace_back(Comm(comm.handle()), ProcessGrid{comm.num_ranks(), 1});
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  if (!odd_one) others.erase(others.begin(), others.begin() + 2);
  training::DataParallel parallel(*net, {}, {{comm, Reduction::sum}});
  auto const x = torch::ones({1, 2, rows.size(comm.rank()), 6}, torch::kDouble);
  auto const pass = [&](Place place) {
    return test::thrown_by(
        [&] { parallel.run([&] { nn::reduce_loss(net(x, place).square().sum(), domain).backward(); }); });
  };

  auto const thrown = pass(odd_one ? Place::between_layers : Place::nowhere);
  auto const after = pass(Place::nowhere);

  EXPECT_NE(thrown.text.find("the disk is full"), std::string::npos) << thrown.text;
  EXPECT_EQ(after.rule, "nothing was thrown") << after.text;
  // All ranks have the last one, which was renewed with the model's own.
  int const renewed = comm.num_ranks() > 1 ? 1 : 0;
  EXPECT_EQ(others.back().comm().generation(), renewed);
  EXPECT_EQ(others.front().comm().generation(), odd_one ? 0 : renewed);
  test::forgive_left_objects();
}

}  // namespace test_recovery
}  // namespace graticule
