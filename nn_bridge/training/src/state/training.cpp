// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/training/sharded/optimizer.hpp>
#include <graticule/training/state/training.hpp>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

namespace graticule::training {

namespace {

constexpr char const* random_state_name = "random/cpu";

torch::Tensor random_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> const lock(generator.mutex());
  return generator.get_state().contiguous();
}

void set_random_state(torch::Tensor const& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> const lock(generator.mutex());
  generator.set_state(state);
}

/// Named by a rank's number and the saved bytes of another rank.
std::uint64_t seed_of(torch::Tensor const& row, int rank) {
  Hash hash;
  hash.add(rank).add(std::span(row.const_data_ptr<std::uint8_t>(), std::size_t(row.numel())));
  return hash.value();
}

/// One row per rank. Collective over the checkpoint's ranks, `comm`.
void save_random_state(Comm const& comm, CheckpointWriter& writer) {
  auto const state = random_state().unsqueeze(0);
  writer.add(random_state_name, Layout(ProcessGrid{comm.num_ranks(), 1}, {comm.num_ranks(), state.numel()}),
             nn::tensor_view(state));
}

/// Gives each rank its row; see `TrainingState` for another number of ranks. Collective.
void load_random_state(Comm const& comm, Checkpoint const& checkpoint) {
  std::string const name = random_state_name;
  auto const num_bytes = random_state().numel();
  auto const& field = checkpoint.field(name);
  run_agreed(comm, [&] {
    if (field.dtype == DType::u8 && field.extents.size() == 2 && field.extents[0] > 0 && field.extents[1] == num_bytes)
      return;
    throw Error(Fault::input, "StateMismatch",
                name + " holds " + to_string(field.extents) + " " + to_string(field.dtype) +
                    ", the state of this LibTorch's generator has " + std::to_string(num_bytes) + " bytes");
  });
  auto const rows = torch::empty({field.extents[0], num_bytes}, torch::kByte);
  checkpoint.read(name, nn::tensor_view(rows, {}));
  bool const alike = (rows == rows[0]).all().item<bool>();
  if (alike || rows.size(0) > comm.rank())
    set_random_state(rows[alike ? 0 : comm.rank()].clone());
  else
    torch::manual_seed(seed_of(rows[0], comm.rank()));
}

void save_part(CheckpointWriter& writer, torch::nn::Module const& model, Comm const& /*comm*/) {
  save_model(writer, model);
}
void save_part(CheckpointWriter& writer, ShardedParameters const& sharded, Comm const& comm) {
  save_model(writer, sharded, comm);
}
void save_part(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer, torch::nn::Module const& model,
               Comm const& /*comm*/, std::string const& prefix) {
  save_optimizer(writer, optimizer, model, prefix);
}
void save_part(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer, ShardedParameters const& sharded,
               Comm const& comm, std::string const& prefix) {
  save_optimizer(writer, optimizer, sharded, comm, prefix);
}

}  // namespace

void TrainingState::add(std::string name, torch::optim::Optimizer& optimizer) {
  add_part(std::move(name),
           {[comm = comm_, model = model_, &optimizer](CheckpointWriter& writer, std::string const& prefix) {
              std::visit([&](auto const* held) { save_part(writer, optimizer, *held, comm, prefix); }, model);
            },
            [comm = comm_, model = model_, &optimizer](Checkpoint const& checkpoint, std::string const& prefix) {
              std::visit([&](auto* held) { load_optimizer(comm, checkpoint, optimizer, *held, prefix); }, model);
            }});
}

void TrainingState::add_part(std::string name, Calls calls) {
  static constexpr std::array<std::string_view, 3> own{"model", "data", "random"};
  bool const taken = std::find(own.begin(), own.end(), name) != own.end() ||
                     std::any_of(parts_.begin(), parts_.end(), [&](auto const& part) { return part.first == name; });
  if (taken) throw Error("BadName", "'" + name + "' is reserved in the training state");
  parts_.emplace_back(std::move(name), std::move(calls));
}

void TrainingState::save(CheckpointWriter& writer) const {
  std::visit([&](auto const* held) { save_part(writer, *held, comm_); }, model_);
  save_random_state(comm_, writer);
  writer.add_value("data/epoch", position.epoch);
  writer.add_value("data/batch", position.batch);
  writer.add_value("data/seed", std::bit_cast<Index>(position.seed));
  for (auto const& [name, calls] : parts_) calls.save(writer, name);
}

void TrainingState::load(Checkpoint const& checkpoint) {
  Position const found{checkpoint.value<Index>("data/epoch"), checkpoint.value<Index>("data/batch"),
                       std::bit_cast<std::uint64_t>(checkpoint.value<Index>("data/seed"))};
  std::visit([&](auto* held) { load_model(comm_, checkpoint, *held); }, model_);
  for (auto const& [name, calls] : parts_) calls.load(checkpoint, name);
  load_random_state(comm_, checkpoint);
  position = found;
}

}  // namespace graticule::training
