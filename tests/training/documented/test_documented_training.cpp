// SPDX-License-Identifier: BSD-3-Clause
// The code of docs/training.md.
#include <graticule/partition/teams.hpp>
#include <graticule/training/data_parallel/probe.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>

#include <gtest/gtest.h>

#include <iostream>

namespace graticule {
namespace test_documented_training {

TEST(DocumentedTraining, runs_data_parallel_as_shown) {
  auto const comm = Comm::world();
  Teams const teams(comm, {{"data", 0}, {"domain", 1}});
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 1));
  model->to(torch::kDouble);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::manual_seed(std::uint64_t(comm.rank()));
  auto const x = torch::randn({4, 3}, torch::kDouble);
  auto const y = torch::randn({4, 1}, torch::kDouble);
  struct Batch {
    torch::Tensor x, y;
  };
  std::vector<Batch> const batches(3, {x, y});
  auto const loss_of = [](torch::Tensor const& a, torch::Tensor const& b) { return torch::mse_loss(a, b); };
  auto const global_loss = [&] {
    std::vector<double> loss{loss_of(model->forward(x), y).item<double>()};
    comm.sum(loss);
    return loss[0] / comm.num_ranks();
  };

  auto const before = global_loss();
  training::DataParallel parallel(
      *model, optimizer, {{teams.team("domain"), nn::Reduction::sum}, {teams.team("data"), nn::Reduction::mean}});
  for (auto const& batch : batches) {
    optimizer.zero_grad();
    parallel.run([&] { loss_of(model->forward(batch.x), batch.y).backward(); });
    parallel.clip_gradients(1.0);
    parallel.step();
  }
  parallel.finalize();
  EXPECT_LT(global_loss(), before);

  auto const wrong = training::find_wrong_rules(
      parallel, [&] { loss_of(model->forward(x), y).backward(); }, [&] { return global_loss(); });
  for (auto const& [name, factor] : wrong) std::cerr << name << " is too large by " << factor << "\n";
  EXPECT_TRUE(wrong.empty());
}

}  // namespace test_documented_training
}  // namespace graticule
