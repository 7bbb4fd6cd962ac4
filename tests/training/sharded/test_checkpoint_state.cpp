// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/training/sharded/checkpoint_state.hpp>
#include <graticule/training/state/model.hpp>

#include "expect_error.hpp"
#include "sharded_net.hpp"
#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <string>

namespace graticule {
namespace test_checkpoint_state {

using test::Folder;
using test::ShardedNet;

/// A net with a buffer, and a layer that is ignored.
struct Model {
  explicit Model(int seed) {
    torch::manual_seed(seed);
    net = ShardedNet();
    net->register_buffer("mean", torch::randn({3}, torch::kDouble));
  }
  nn::NamedTensors state() const {
    auto result = nn::parameters_of(*net);
    for (auto& buffer : nn::detail::buffers_of(*net)) result.push_back(buffer);
    return result;
  }
  training::ShardedParametersOptions options() { return {.ignored = {net->layers[2]}}; }
  ShardedNet net{nullptr};
};

TEST(ShardedState, is_whole_under_the_names_of_the_model) {
  auto const comm = Comm::world();
  Model model(4);
  training::ShardedParameters const sharded(model.net.ptr(), {comm, nn::Reduction::mean}, model.options());

  EXPECT_EQ(test::difference(training::full_state(sharded), Model(4).state()), 0);
  auto const on_first = training::full_state(sharded, training::StateOn::first_rank);
  if (comm.rank() == 0)
    EXPECT_EQ(test::difference(on_first, Model(4).state()), 0);
  else
    EXPECT_TRUE(on_first.empty());
}

TEST(ShardedState, names_the_rows_of_each_rank) {
  auto const comm = Comm::world();
  Model model(4);
  training::ShardedParameters const sharded(model.net.ptr(), {comm, nn::Reduction::mean}, model.options());
  auto const whole = Model(4).state();

  auto const entries = training::detail::sharded_state(sharded);

  ASSERT_EQ(entries.size(), whole.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto const& entry = entries[i];
    auto const& [name, tensor] = whole[i];
    EXPECT_EQ(entry.name, name);
    EXPECT_EQ(torch::IntArrayRef(entry.sizes), tensor.sizes());
    EXPECT_EQ(entry.whole, name == "mean" || name.starts_with("layers.2.")) << name;
    if (entry.whole || tensor.dim() == 0) continue;
    EXPECT_TRUE(torch::equal(entry.local, tensor.detach().narrow(0, entry.first_row, entry.local.size(0)))) << name;
  }
}

TEST(ShardedState, is_taken_whole) {
  auto const comm = Comm::world();
  Model model(4);
  training::ShardedParameters sharded(model.net.ptr(), {comm, nn::Reduction::mean}, model.options());

  training::load_full_state(sharded, Model(9).state());

  EXPECT_EQ(test::difference(training::full_state(sharded), Model(9).state()), 0);
  auto const x = torch::arange(3);
  EXPECT_TRUE(torch::allclose(sharded.forward([&] { return model.net->forward(x); }), Model(9).net->forward(x)));
}

TEST(ShardedState, refuses_what_does_not_fit_and_stays) {
  auto const comm = Comm::world();
  Model model(4);
  training::ShardedParameters sharded(model.net.ptr(), {comm, nn::Reduction::mean}, model.options());
  auto state = Model(9).state();
  state[0].second = torch::zeros({2}, torch::kDouble);
  state[1].first = "other";

  auto const error = test::thrown_by([&] { training::load_full_state(sharded, state); });

  EXPECT_EQ(error.rule, "StateMismatch");
  for (auto const* part :
       {"gain is [2] in the state and [] here", "the state lacks words.weight", "the model lacks other"})
    EXPECT_NE(error.text.find(part), std::string::npos) << error.text;
  EXPECT_EQ(test::difference(training::full_state(sharded), Model(4).state()), 0);
}

TEST(ShardedState, is_given_back_to_the_rank_that_it_was_taken_from) {
  auto const comm = Comm::world();
  Model model(4);
  training::ShardedParameters sharded(model.net.ptr(), {comm, nn::Reduction::mean}, model.options());
  auto const state = training::local_state(sharded);
  training::load_full_state(sharded, Model(9).state());

  training::load_local_state(sharded, state);

  EXPECT_EQ(test::difference(training::full_state(sharded), Model(4).state()), 0);
}

TEST(ShardedState, refuses_that_of_another_layout_rank_or_model_on_all_ranks) {
  auto const comm = Comm::world();
  bool const odd_one = comm.rank() == comm.num_ranks() - 1;
  Model model(4);
  training::ShardedParameters sharded(model.net.ptr(), {comm, nn::Reduction::mean}, model.options());
  auto const error_with = [&](auto const& change) {
    auto state = training::local_state(sharded);
    for (auto& [name, tensor] : state.tensors) tensor = tensor + 1;
    if (odd_one) change(state);
    return test::thrown_by([&] { training::load_local_state(sharded, state); });
  };

  auto const layout = error_with([](training::LocalState& state) { ++state.num_ranks; });
  auto const rank = error_with([](training::LocalState& state) { ++state.rank; });
  auto const type = error_with(
      [](training::LocalState& state) { state.tensors[1].second = state.tensors[1].second.to(torch::kFloat); });
  auto const name = error_with([](training::LocalState& state) { state.tensors[1].first = "other"; });
  auto const number = error_with([](training::LocalState& state) { state.tensors.pop_back(); });

  for (auto const& error : {layout, rank, type, name, number}) EXPECT_EQ(error.rule, "StateMismatch");
  EXPECT_NE(layout.text.find("of " + std::to_string(comm.num_ranks() + 1) + " is given to rank"), std::string::npos);
  EXPECT_NE(type.text.find("words.weight is Float"), std::string::npos) << type.text;
  EXPECT_NE(name.text.find("other stands in the place of words.weight"), std::string::npos) << name.text;
  EXPECT_EQ(test::difference(training::full_state(sharded), Model(4).state()), 0);
}

/// Saves on all ranks, cut over all; then every part of the ranks loads it, cut over that part.
TEST(ShardedState, is_saved_by_some_ranks_and_loaded_by_any_others) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  Model model(4);
  training::ShardedParameters const sharded(model.net.ptr(), {comm, nn::Reduction::mean}, model.options());
  CheckpointStore store(comm, folder.path());
  auto writer = store.begin(7);
  training::save_model(writer, sharded, comm);
  auto const file = writer.commit();

  for (int first = 1; first <= comm.num_ranks(); ++first) {
    auto const part = comm.split(comm.rank() < first ? 0 : 1, comm.rank());
    Model other(50);
    training::ShardedParameters loaded(other.net.ptr(), {part, nn::Reduction::mean}, other.options());
    Checkpoint const checkpoint(part, file);
    checkpoint.verify();
    training::load_model(part, checkpoint, loaded);
    EXPECT_EQ(test::difference(training::full_state(loaded), Model(4).state()), 0) << first;
  }
  // As an uncut model reads it.
  Checkpoint const checkpoint(comm, file);
  for (auto const& [name, tensor] : Model(4).state()) {
    auto const& field = checkpoint.field("model/" + name);
    EXPECT_EQ(field.extents, Indices(std::span(tensor.sizes().data(), tensor.sizes().size()))) << name;
    std::vector<double> values(std::size_t(tensor.numel()), -1);
    checkpoint.read("model/" + name, field_view(values.data(), field.extents, 0));
    EXPECT_TRUE(torch::equal(torch::tensor(values, torch::kDouble), tensor.detach().reshape({-1}))) << name;
  }
}

TEST(ShardedState, is_saved_once_where_replicas_hold_it_too) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const alone = comm.split(comm.rank(), 0);
  Model model(4);
  training::ShardedParameters sharded(model.net.ptr(), {alone, nn::Reduction::mean},
                                      {.replicas = {{comm, nn::Reduction::mean}}, .ignored = model.options().ignored});
  CheckpointStore store(comm, folder.path());
  auto writer = store.begin(1);
  training::save_model(writer, sharded, comm, "net");
  Checkpoint const checkpoint(comm, writer.commit());
  training::load_full_state(sharded, Model(9).state());

  training::load_model(comm, checkpoint, sharded, "net");

  EXPECT_EQ(test::difference(training::full_state(sharded), Model(4).state()), 0);
  auto const error = test::thrown_by([&] { training::load_model(comm, checkpoint, sharded, "model"); });
  EXPECT_EQ(error.rule, "StateMismatch");
  EXPECT_NE(error.text.find("the checkpoint lacks gain"), std::string::npos) << error.text;
}

TEST(ShardedState, keeps_the_models_dtype_of_buffers_held_in_another) {
  struct Buffered : torch::nn::Module {
    Buffered()
        : layer(register_module("layer", torch::nn::Linear(3, 2))),
          mean(register_buffer("mean", torch::full({3}, 0.5))),
          count(register_buffer("count", torch::tensor(3))) {}
    torch::nn::Linear layer;
    torch::Tensor mean;
    torch::Tensor count;
  };
  auto const comm = Comm::world();
  auto const model = std::make_shared<Buffered>();
  auto const loaded = std::make_shared<Buffered>();
  auto const plain = std::make_shared<Buffered>();
  training::ShardedParametersOptions const narrow{.precision = {.buffers = torch::kBFloat16}};
  training::ShardedParameters sharded(model, {comm, nn::Reduction::mean}, narrow);
  training::ShardedParameters other(loaded, {comm, nn::Reduction::mean}, narrow);
  EXPECT_EQ(model->mean.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(model->count.scalar_type(), torch::kLong);
  model->mean.fill_(0.75);
  Folder const folder(comm);
  CheckpointStore store(comm, folder.path());
  auto writer = store.begin(1);
  training::save_model(writer, sharded, comm);
  Checkpoint const checkpoint(comm, writer.commit());

  training::load_model(comm, checkpoint, other);
  training::load_model(comm, checkpoint, *plain);

  for (auto const& [name, tensor] : training::full_state(sharded))
    EXPECT_NE(tensor.scalar_type(), torch::kBFloat16) << name;
  EXPECT_EQ(plain->mean.scalar_type(), torch::kFloat);
  EXPECT_TRUE((plain->mean == 0.75).all().item<bool>());
  EXPECT_EQ(loaded->mean.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE((loaded->mean == 0.75).all().item<bool>());
  sharded.unwrap();
  EXPECT_EQ(model->mean.scalar_type(), torch::kFloat);
  EXPECT_TRUE((model->mean == 0.75).all().item<bool>());
}

}  // namespace test_checkpoint_state
}  // namespace graticule
