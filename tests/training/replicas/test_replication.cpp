// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/replicas/replication.hpp>
#include <graticule/training/replicas/sync_batch_norm.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace graticule {
namespace test_replication {

using test::rule_of;
using test::thrown_by;
using torch::IValue;
using training::ReplicaContext;

/// Writes down its calls; the master puts a value, its peers read it.
struct ListeningImpl : torch::nn::Cloneable<ListeningImpl>, training::ReplicaHook {
  ListeningImpl(std::string given_name, std::string* given_log) : name(std::move(given_name)), log(given_log) {}
  void reset() override {}
  torch::Tensor forward(torch::Tensor const& x) { return x; }
  void on_replicate(std::shared_ptr<ReplicaContext> const& given, int copy, int num_copies) override {
    *log += name + std::to_string(copy) + "/" + std::to_string(num_copies) + " ";
    if (name == throws && copy == throws_on) throw std::runtime_error("cannot be copied");
    context = given;
    if (copy == 0) context->put("seed", 100 + Index(name[0]));
    seed = context->take<Index>("seed");
  }
  std::string name;
  std::string* log;
  std::string throws;
  int throws_on = 0;
  std::shared_ptr<ReplicaContext> context;
  Index seed = 0;
};
TORCH_MODULE(Listening);

/// Listening modules a, then b within a container; a layer without a hook between them.
struct ModelImpl : torch::nn::Cloneable<ModelImpl> {
  explicit ModelImpl(std::string* given_log) : log(given_log) { reset(); }
  void reset() override {
    a = register_module("a", Listening("a", log));
    layers = register_module("layers", torch::nn::Sequential(torch::nn::Linear(2, 2), Listening("b", log)));
    b = std::dynamic_pointer_cast<ListeningImpl>(layers->ptr(1));
  }
  std::string* log;
  Listening a{nullptr};
  torch::nn::Sequential layers{nullptr};
  std::shared_ptr<ListeningImpl> b;
};
TORCH_MODULE(Model);

TEST(Replicate, calls_the_master_at_every_module_before_the_other_copies_in_order) {
  std::string log;
  std::vector<Model> models;
  std::vector<std::shared_ptr<torch::nn::Module>> copies;
  for (int c = 0; c < 3; ++c) copies.push_back(models.emplace_back(&log).ptr());

  auto const contexts = training::replicate(copies);

  EXPECT_EQ(log, "a0/3 b0/3 a1/3 b1/3 a2/3 b2/3 ");
  // The model, a, the container, the linear layer, b: modules without a hook have a context, too.
  ASSERT_EQ(contexts.size(), 5U);
  for (auto const& model : models) {
    EXPECT_EQ(model->a->context, contexts[1]);
    EXPECT_EQ(model->b->context, contexts[4]);
    EXPECT_EQ(model->a->seed, 100 + 'a');
    EXPECT_EQ(model->b->seed, 100 + 'b');
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(contexts[std::size_t(i)]->ordinal(), i);
  EXPECT_FALSE(contexts[0]->team());
  EXPECT_EQ(rule_of([&] { contexts[1]->put("late", Index(1)); }), "WrongState");
  EXPECT_EQ(rule_of([&] { (void)contexts[1]->take<double>("seed"); }), "WrongType");
  EXPECT_EQ(rule_of([&] { (void)contexts[1]->take<Index>("late"); }), "MissingVariable");
}

TEST(Replicate, tells_each_rank_of_a_team_its_number_and_the_masters_values) {
  auto const world = Comm::world();
  std::string log;
  Model model(&log);
  auto const me = std::to_string(world.rank()) + "/" + std::to_string(world.num_ranks());

  auto const contexts = training::replicate(*model, world);

  EXPECT_EQ(log, "a" + me + " b" + me + " ");
  EXPECT_EQ(model->a->seed, 100 + 'a');
  EXPECT_EQ(model->b->seed, 100 + 'b');
  ASSERT_TRUE(model->b->context->team());
  EXPECT_EQ(model->b->context->team()->rank(), world.rank());
  EXPECT_EQ(model->b->context->ordinal(), 4);
  EXPECT_NE(model->a->context, model->b->context);

  // Again after a clone, whose modules are others.
  auto const clone = std::dynamic_pointer_cast<ModelImpl>(model->clone());
  log.clear();
  (void)training::replicate(*clone, world);
  EXPECT_EQ(log, "a" + me + " b" + me + " ");
}

/// Puts a value of each kind.
struct GenerousImpl : torch::nn::Module, training::ReplicaHook {
  void on_replicate(std::shared_ptr<ReplicaContext> const& given, int copy, int /*num_copies*/) override {
    if (copy == 0)
      for (auto const& [key, value] : all) given->put(key, value);
    found = given->values();
  }
  training::Values all{{"index", Index(-7)},
                       {"real", 0.1},
                       {"text", std::string("a\0b", 3)},
                       {"nothing", std::string()},
                       {"bytes", std::vector<std::byte>{std::byte{3}, std::byte{255}}},
                       {"indices", std::vector<Index>{1, Index(1) << 40}},
                       {"reals", std::vector<double>{0.1, -2e300}}};
  training::Values found;
};
TORCH_MODULE(Generous);

TEST(Replicate, brings_values_of_every_kind_to_all_ranks) {
  Generous module;

  (void)training::replicate(*module, Comm::world());

  EXPECT_EQ(module->found, module->all);
}

TEST(Replicate, calls_a_module_in_several_places_once) {
  std::string log;
  auto const shared = Listening("s", &log);
  torch::nn::Sequential model(shared, torch::nn::ReLU(), shared);

  EXPECT_EQ(training::replicate({model.ptr()}).size(), 3U);

  EXPECT_EQ(log, "s0/1 ");
}

TEST(Replicate, refuses_copies_that_are_not_alike) {
  auto const world = Comm::world();
  bool const odd_one = world.rank() == world.num_ranks() - 1 && world.num_ranks() > 1;
  torch::nn::Sequential const plain(torch::nn::Linear(2, 2), torch::nn::ReLU());
  torch::nn::Sequential const other(torch::nn::Linear(2, 2), torch::nn::Tanh());
  torch::nn::Sequential const longer(torch::nn::Linear(2, 2), torch::nn::ReLU(), torch::nn::ReLU());
  for (auto const& odd : {other, longer}) {
    auto const thrown = thrown_by([&] { (void)training::replicate(odd_one ? *odd.ptr() : *plain.ptr(), world); });
    EXPECT_EQ(thrown.rule, world.num_ranks() > 1 ? "ReplicaMismatch" : "nothing was thrown");
    auto const found = thrown_by([&] { (void)training::replicate({plain.ptr(), plain.ptr(), odd.ptr()}); });
    EXPECT_EQ(found.rule, "ReplicaMismatch");
    EXPECT_NE(found.text.find("copy 2 has module"), std::string::npos) << found.text;
  }
  EXPECT_EQ(rule_of([] { (void)training::replicate(std::vector<std::shared_ptr<torch::nn::Module>>{}); }), "BadOption");
}

TEST(Replicate, ends_on_all_ranks_when_a_hook_throws_on_one) {
  auto const world = Comm::world();
  for (int rank = 0; rank < world.num_ranks(); ++rank) {
    std::string log;
    Model model(&log);
    model->b->throws = "b";
    model->b->throws_on = rank;
    EXPECT_THROW((void)training::replicate(*model, world), std::exception);
    // Others are not called at all when the master fails.
    EXPECT_EQ(log.empty(), rank == 0 && world.rank() != 0);
  }
}

/// A data-parallel class of someone else.
struct Wrapper {
  std::function<void(std::vector<std::shared_ptr<torch::nn::Module>> const&)> after_replication;
  void run(std::vector<std::shared_ptr<torch::nn::Module>> const& copies) {
    if (after_replication) after_replication(copies);
  }
};

TEST(PatchReplication, gives_a_wrapper_the_callbacks_once_and_keeps_its_own) {
  std::string log;
  Model const first(&log);
  Model const second(&log);
  Wrapper wrapper;
  wrapper.after_replication = [&](auto const& copies) { log += "own" + std::to_string(copies.size()) + " "; };

  EXPECT_TRUE(training::patch_replication(wrapper));
  EXPECT_FALSE(training::patch_replication(wrapper));
  wrapper.run({first.ptr(), second.ptr()});

  EXPECT_EQ(log, "own2 a0/2 b0/2 a1/2 b1/2 ");
}

/// Nested outputs of a copy: tensors of `rows` rows, a scalar, a map, lists, a tuple, a string, a number, nothing.
IValue output_of(int copy, int rows) {
  auto const value = double(copy);
  c10::Dict<std::string, torch::Tensor> map;
  map.insert("loss", torch::full({}, value));
  map.insert("rows", torch::full({rows, 2}, value));
  std::vector<IValue> parts{IValue(torch::full({rows}, value)),
                            IValue(map),
                            IValue(),
                            IValue("copy" + std::to_string(copy)),
                            IValue(std::int64_t(copy)),
                            IValue(c10::List<torch::Tensor>({torch::full({1, rows}, value)}))};
  return c10::ivalue::Tuple::create(std::move(parts));
}

void expect_gathered(IValue const& gathered, int num_copies) {
  auto const parts = gathered.toTupleRef().elements().vec();
  ASSERT_EQ(parts.size(), 6U);
  std::vector<torch::Tensor> rows;
  for (int c = 0; c < num_copies; ++c) rows.push_back(torch::full({c + 1}, double(c)));
  EXPECT_TRUE(torch::equal(parts[0].toTensor(), torch::cat(rows)));
  auto const map = parts[1].toGenericDict();
  EXPECT_EQ(map.at("loss").toTensor().sizes(), torch::IntArrayRef({num_copies}));
  EXPECT_EQ(map.at("rows").toTensor().sizes(), torch::IntArrayRef({num_copies * (num_copies + 1) / 2, 2}));
  EXPECT_TRUE(parts[2].isNone());
  EXPECT_EQ(parts[3].toListRef().back().toStringRef(), "copy" + std::to_string(num_copies - 1));
  EXPECT_EQ(parts[4].toListRef().size(), std::size_t(num_copies));
  EXPECT_EQ(parts[4].toListRef()[0].toInt(), 0);
}

TEST(GatherNested, follows_the_structure_of_the_first_copy) {
  std::vector<IValue> outputs;
  // Equal rows in the list, which is gathered along the same axis.
  for (int c = 0; c < 3; ++c) outputs.push_back(output_of(c, c + 1));
  for (int c = 0; c < 3; ++c) {
    auto parts = outputs[std::size_t(c)].toTupleRef().elements().vec();
    parts[5] = IValue(c10::List<torch::Tensor>({torch::full({1, 2}, double(c))}));
    outputs[std::size_t(c)] = c10::ivalue::Tuple::create(std::move(parts));
  }
  auto const gathered = training::gather_nested(outputs);

  expect_gathered(gathered, 3);
  auto const list = gathered.toTupleRef().elements().vec().at(5);
  ASSERT_EQ(list.toListRef().size(), 1U);
  EXPECT_EQ(list.toListRef()[0].toTensor().sizes(), torch::IntArrayRef({3, 2}));
}

TEST(GatherNested, gathers_along_another_axis_and_over_ranks) {
  auto const world = Comm::world();
  auto const tensor = torch::full({2, world.rank() + 1}, double(world.rank()));

  auto const gathered = training::gather_nested(world, IValue(tensor), 1).toTensor();

  EXPECT_EQ(gathered.sizes(), torch::IntArrayRef({2, world.num_ranks() * (world.num_ranks() + 1) / 2}));
  EXPECT_EQ(gathered[1][-1].item<int>(), world.num_ranks() - 1);
}

TEST(GatherNested, names_the_place_that_differs) {
  auto const map = [](std::vector<std::string> const& keys) {
    c10::Dict<std::string, torch::Tensor> result;
    for (auto const& key : keys) result.insert(key, torch::ones({1}));
    return IValue(result);
  };
  auto const list = [](std::int64_t size) {
    c10::List<std::int64_t> result;
    for (std::int64_t i = 0; i < size; ++i) result.push_back(i);
    return IValue(result);
  };
  auto const given = [](std::vector<IValue> const& outputs) {
    auto const thrown = thrown_by([&] { (void)training::gather_nested(outputs); });
    return thrown.rule + ": " + thrown.text;
  };
  EXPECT_EQ(given({map({"a", "b"}), map({"a"})}),
            "ReplicaMismatch: output[b] of copy 1: a key is missing that is in the first copy");
  EXPECT_EQ(given({map({"a"}), map({"a", "b"})}),
            "ReplicaMismatch: output of copy 1: a key that is not in the first copy");
  EXPECT_EQ(given({list(2), list(3)}), "ReplicaMismatch: output of copy 1: 3 elements, 2 in the first copy");
  EXPECT_EQ(given({list(2), IValue()}), "ReplicaMismatch: output of copy 1: a none, a list in the first copy");
  EXPECT_EQ(rule_of([] { (void)training::gather_nested(std::vector<IValue>{}); }), "BadOption");
  auto const world = Comm::world();
  auto const over_ranks = rule_of([&] { (void)training::gather_nested(world, world.rank() == 0 ? list(2) : list(3)); });
  EXPECT_EQ(over_ranks, world.num_ranks() > 1 ? "ReplicaMismatch" : "nothing was thrown");
}

// The code of docs/replication.md.
struct NoiseImpl : torch::nn::Cloneable<NoiseImpl>, training::ReplicaHook {
  void reset() override {}
  void on_replicate(std::shared_ptr<training::ReplicaContext> const& context, int copy, int /*num_copies*/) override {
    if (copy == 0) context->put("seed", Index(17));
    seed = context->take<Index>("seed") + 1000 * context->ordinal();
    team = context->team();
  }
  Index seed = 0;
  std::optional<Comm> team;
};
TORCH_MODULE(Noise);

TEST(Replicate, runs_as_documented) {
  auto const world = Comm::world();
  Noise model;
  training::replicate(*model, world);
  EXPECT_EQ(model->seed, 17);
  EXPECT_TRUE(model->team);

  torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::BatchNorm1d(2));
  int const num_converted = training::convert_batch_norms(*net);
  training::replicate(*net, world);
  EXPECT_EQ(num_converted, 1);
}

TEST(ScatterNested, wants_one_input_for_each_copy) {
  auto const fixed = [](std::size_t count) -> training::detail::InputScatter {
    return [count](IValue const& input, int /*num_copies*/) { return std::vector<IValue>(count, input); };
  };
  EXPECT_EQ(training::detail::scatter_nested(fixed(3), IValue(1.0), 3).size(), 3U);
  EXPECT_EQ(rule_of([&] { (void)training::detail::scatter_nested(fixed(2), IValue(1.0), 3); }), "ReplicaMismatch");
}

}  // namespace test_replication
}  // namespace graticule
