// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/training/state/training.hpp>

#include "expect_error.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace graticule {
namespace test_training {

using test::Folder;
using test::rule_of;
using test::thrown_by;

/// With buffers, one of them without axes, a parameter without elements, a shared one, and masks from LibTorch's
/// generator.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t width = 5) {
    encoder = register_module("encoder", torch::nn::Sequential(torch::nn::Linear(3, width),
                                                               torch::nn::BatchNorm1d(width), torch::nn::ReLU()));
    head = register_module("head", torch::nn::Linear(width, 1));
    alias = register_module("alias", head);
    none = register_parameter("none", torch::zeros({0, 2}));
  }
  torch::Tensor forward(torch::Tensor const& x) {
    return head(torch::dropout(encoder->forward(x), 0.3, is_training())) + alias(encoder->forward(x));
  }
  torch::nn::Sequential encoder;
  torch::nn::Linear head{nullptr};
  torch::nn::Linear alias{nullptr};
  torch::Tensor none;
};
TORCH_MODULE(Net);

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Net&)>;

std::vector<std::pair<std::string, MakeOptimizer>> optimizers() {
  using namespace torch::optim;
  return {
      {"SGD", [](Net& net) { return std::make_unique<SGD>(net->parameters(), SGDOptions(0.1)); }},
      {"SGD with momentum",
       [](Net& net) { return std::make_unique<SGD>(net->parameters(), SGDOptions(0.1).momentum(0.9).nesterov(true)); }},
      {"Adam", [](Net& net) { return std::make_unique<Adam>(net->parameters(), AdamOptions(0.1).amsgrad(true)); }},
      {"AdamW in two groups",
       [](Net& net) {
         std::vector<OptimizerParamGroup> groups;
         groups.emplace_back(net->encoder->parameters(), std::make_unique<AdamWOptions>(AdamWOptions(0.02)));
         groups.emplace_back(net->head->parameters(),
                             std::make_unique<AdamWOptions>(AdamWOptions(0.1).betas({0.8, 0.9}).weight_decay(0.3)));
         return std::make_unique<AdamW>(groups, AdamWOptions(0.05));
       }},
      {"Adagrad",
       [](Net& net) { return std::make_unique<Adagrad>(net->parameters(), AdagradOptions(0.1).lr_decay(0.1)); }},
      {"RMSprop", [](Net& net) {
         return std::make_unique<RMSprop>(net->parameters(), RMSpropOptions(0.05).momentum(0.5).centered(true));
       }}};
}

void train(Net& net, torch::optim::Optimizer& optimizer, int num_steps) {
  for (int step = 0; step < num_steps; ++step) {
    optimizer.zero_grad();
    net->forward(torch::rand({4, 3})).square().mean().backward();
    optimizer.step();
  }
}

std::vector<torch::Tensor> values_of(Net const& net) {
  std::vector<torch::Tensor> values;
  for (auto const& tensors : {nn::parameters_of(*net), nn::detail::buffers_of(*net)})
    for (auto const& [name, tensor] : tensors) values.push_back(tensor.detach().clone());
  return values;
}

bool same(std::vector<torch::Tensor> const& a, std::vector<torch::Tensor> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!torch::equal(a[i], b[i])) return false;
  return true;
}

/// A part of one's own.
struct Counter {
  Index count = 0;
  void save(CheckpointWriter& writer, std::string const& prefix) const { writer.add_value(prefix + "/count", count); }
  void load(Checkpoint const& checkpoint, std::string const& prefix) {
    count = checkpoint.value<Index>(prefix + "/count");
  }
};

std::filesystem::path save(CheckpointStore& store, training::TrainingState const& state, Index step = 1) {
  auto writer = store.begin(step);
  state.save(writer);
  return writer.commit();
}

TEST(TrainingState, goes_on_bit_for_bit_with_every_optimizer) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  for (auto const& [name, make] : optimizers()) {
    torch::manual_seed(7);
    Net net;
    auto const optimizer = make(net);
    training::TrainingState state(comm, *net);
    state.add("optimizer", *optimizer);
    train(net, *optimizer, 3);
    state.position = {2, 5, 0xffffffffffffffffU};
    auto const path = save(store, state);
    train(net, *optimizer, 3);

    torch::manual_seed(8);
    Net other;
    auto const other_optimizer = make(other);
    train(other, *other_optimizer, 2);
    for (auto& group : other_optimizer->param_groups()) group.options().set_lr(9);
    training::TrainingState other_state(comm, *other);
    other_state.add("optimizer", *other_optimizer);
    other_state.load(Checkpoint(comm, path));
    train(other, *other_optimizer, 3);

    EXPECT_TRUE(same(values_of(net), values_of(other))) << name;
    EXPECT_EQ(other_state.position, state.position);
  }
}

TEST(TrainingState, is_loaded_by_any_number_of_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const alone = comm.split(comm.rank(), 0);
  for (bool const all_save : {true, false}) {
    torch::manual_seed(3);
    Net net;
    torch::optim::Adam optimizer(net->parameters());
    Counter counter{4};
    train(net, optimizer, 2);
    auto const name = all_save ? "all" : "one." + std::to_string(comm.rank());
    CheckpointStore store(all_save ? comm : alone, folder / name);
    training::TrainingState state(all_save ? comm : alone, *net);
    state.add("optimizer", optimizer);
    state.add("counter", counter);
    auto const path = save(store, state);
    comm.barrier();

    torch::manual_seed(4);
    Net other;
    torch::optim::Adam other_optimizer(other->parameters());
    Counter other_counter;
    training::TrainingState other_state(all_save ? alone : comm, *other);
    other_state.add("optimizer", other_optimizer);
    other_state.add("counter", other_counter);
    auto const file = all_save ? path.string() : comm.broadcast(path.string(), comm.num_ranks() - 1);
    other_state.load(Checkpoint(all_save ? alone : comm, file));
    train(other, other_optimizer, 2);
    torch::manual_seed(3);
    net = Net();
    torch::optim::Adam uninterrupted(net->parameters());
    train(net, uninterrupted, 4);

    EXPECT_TRUE(same(values_of(net), values_of(other)));
    EXPECT_EQ(other_counter.count, 4);
  }
}

TEST(TrainingState, keeps_the_random_numbers_of_each_rank) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  Net net;
  {
    torch::NoGradGuard const no_grad;
    for (auto& parameter : net->parameters()) parameter.fill_(0.5);
  }
  training::TrainingState state(comm, *net);
  torch::manual_seed(std::uint64_t(100 + comm.rank()));
  auto const path = save(store, state);
  auto const next = torch::rand({3});
  torch::manual_seed(1);

  state.load(Checkpoint(comm, path));

  EXPECT_TRUE(torch::equal(torch::rand({3}), next));
  if (comm.num_ranks() < 3) return;
  // A rank more than the two that had states of their own: it gets another one.
  auto const fewer = comm.split(comm.rank() < comm.num_ranks() - 1 ? 0 : 1, comm.rank());
  CheckpointStore few_store(fewer, folder / (comm.rank() < comm.num_ranks() - 1 ? "few" : "last"));
  torch::manual_seed(std::uint64_t(100 + comm.rank()));
  auto const few = save(few_store, training::TrainingState(fewer, *net));
  auto const file = comm.broadcast(few.string(), 0);
  comm.barrier();
  state.load(Checkpoint(comm, file));
  auto const drawn = Index(torch::rand({1}, torch::kDouble).item<double>() * 1e15);
  auto const all = comm.gather_to_all(drawn);
  for (std::size_t i = 0; i + 1 < all.size(); ++i) EXPECT_NE(all[i], all.back());
  state.load(Checkpoint(comm, file));
  EXPECT_EQ(Index(torch::rand({1}, torch::kDouble).item<double>() * 1e15), drawn);
}

TEST(TrainingState, refuses_what_does_not_fit_on_all_ranks_and_leaves_it_alone) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::manual_seed(5);
  Net net;
  torch::optim::Adam optimizer(net->parameters());
  train(net, optimizer, 1);
  training::TrainingState state(comm, *net);
  state.add("optimizer", optimizer);
  Checkpoint const found(comm, save(store, state));

  Net wide(6);
  auto const before = values_of(wide);
  auto const shapes = thrown_by([&] { training::load_model(comm, found, *wide); });
  EXPECT_EQ(shapes.rule, "StateMismatch");
  EXPECT_EQ(shapes.fault, Fault::input);
  EXPECT_NE(shapes.text.find("encoder.0.weight is f32 (5, 3) in the checkpoint and f32 (6, 3) here"), std::string::npos)
      << shapes.text;
  EXPECT_TRUE(same(before, values_of(wide)));

  torch::nn::Linear linear(3, 5);
  auto const names = thrown_by([&] { training::load_model(comm, found, *linear); });
  EXPECT_EQ(names.rule, "StateMismatch");
  EXPECT_NE(names.text.find("the checkpoint lacks weight"), std::string::npos) << names.text;
  EXPECT_NE(names.text.find("the model lacks encoder.0.bias"), std::string::npos) << names.text;

  Net doubles;
  doubles->to(torch::kDouble);
  EXPECT_EQ(rule_of([&] { training::load_model(comm, found, *doubles); }), "StateMismatch");

  torch::optim::AdamW other_kind(net->parameters());
  auto const kinds = thrown_by([&] { training::load_optimizer(comm, found, other_kind, *net); });
  EXPECT_EQ(kinds.rule, "StateMismatch");
  EXPECT_NE(kinds.text.find("the state of Adam, the optimizer is AdamW"), std::string::npos) << kinds.text;

  torch::optim::Adam fewer(net->encoder->parameters());
  auto const groups = thrown_by([&] { training::load_optimizer(comm, found, fewer, *net); });
  EXPECT_EQ(groups.rule, "StateMismatch");
  EXPECT_NE(groups.text.find("the optimizer lacks head.weight in group 0"), std::string::npos) << groups.text;

  EXPECT_EQ(rule_of([&] { training::load_optimizer(comm, found, optimizer, *wide); }), "UnknownName");
  torch::optim::LBFGS unsupported(net->parameters());
  EXPECT_EQ(rule_of([&] { training::load_optimizer(comm, found, unsupported, *net); }), "Unsupported");
  EXPECT_EQ(rule_of([&] { state.add("optimizer", optimizer); }), "BadName");
  EXPECT_EQ(rule_of([&] { state.add("model", optimizer); }), "BadName");
}

TEST(TrainingState, names_a_model_that_differs_on_one_rank) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no replicas";
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::manual_seed(5);
  Net net;
  auto const path = save(store, training::TrainingState(comm, *net));

  if (comm.rank() == comm.num_ranks() - 1) {
    torch::NoGradGuard const no_grad;
    net->head->weight[0][0].add_(1);
  }
  auto const saved = thrown_by([&] { (void)save(store, training::TrainingState(comm, *net)); });
  EXPECT_EQ(saved.rule, "ReplicaMismatch");
  EXPECT_NE(saved.text.find("head.weight"), std::string::npos) << saved.text;

  Net other(comm.rank() == 0 ? 5 : 6);
  EXPECT_EQ(rule_of([&] { training::load_model(comm, Checkpoint(comm, path), *other); }), "ReplicaMismatch");
}

TEST(TrainingState, passes_over_a_parameter_without_a_step) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::manual_seed(5);
  Net net;
  torch::optim::Adam optimizer(net->parameters());
  net->encoder->forward(torch::rand({4, 3})).sum().backward();
  optimizer.step();
  training::TrainingState state(comm, *net);
  state.add("optimizer", optimizer);
  Checkpoint const found(comm, save(store, state));
  optimizer.zero_grad();
  train(net, optimizer, 1);
  auto* const key = net->head->weight.unsafeGetTensorImpl();
  ASSERT_EQ(optimizer.state().count(key), 1U);

  state.load(found);

  EXPECT_EQ(optimizer.state().count(key), 0U);
  EXPECT_EQ(training::load_optimizer(comm, found, optimizer, *net),
            (std::vector<std::string>{"none", "head.weight", "head.bias"}));
}

TEST(LoadModel, h5py_reads_the_same_numbers_under_the_serial_names) {
  auto const comm = Comm::world();
  char const* const named = std::getenv("GRATICULE_TEST_PYTHON");
  std::string const python = named != nullptr && std::filesystem::exists(named) ? named : "python3";
  if (std::system((python + " -c 'import h5py' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "h5py is not installed for " << python;
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  torch::manual_seed(6);
  Net net;
  torch::optim::Adam optimizer(net->parameters());
  train(net, optimizer, 2);
  training::TrainingState state(comm, *net);
  state.add("optimizer", optimizer);
  state.position = {3, 1, 9};
  auto const path = save(store, state);

  auto const sum = std::to_string(net->head->weight.sum().item<double>());
  auto const script = "import h5py; f = h5py.File('" + path.string() +
                      "'); w = f['fields/model/head.weight'][...]; assert w.shape == (1, 5); assert abs(w.sum() - " +
                      sum +
                      ") < 1e-5; assert f['fields/model/encoder.1.num_batches_tracked'][()] == 4; "
                      "assert f['fields/optimizer/exp_avg/head.weight'].shape == (1, 5); "
                      "assert f['values/data/epoch'][()] == 3";
  EXPECT_EQ(comm.rank() == 0 ? std::system((python + " -c \"" + script + "\"").c_str()) : 0, 0);
}

}  // namespace test_training
}  // namespace graticule
