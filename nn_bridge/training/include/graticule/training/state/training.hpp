// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/sharded/checkpoint_state.hpp>
#include <graticule/training/state/model.hpp>
#include <graticule/training/state/optimizer.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace graticule::training {

/// Everything that a training needs to continue as if it had not stopped: model, optimizers, data position, random
/// state, and any parts that are added.
///
/// It loads on any number of ranks and any teams, with whole or sharded parameters: the files are the same. It refers
/// to its arguments, which must outlive it. The random state is that of LibTorch's CPU generator, one per rank. On
/// another number of ranks: if all ranks had the same state, all get it; otherwise ranks with a saved state get theirs,
/// and further ranks a state derived from their number and the first one.
/// Example:
///     training::TrainingState state(comm, *net);
///     state.add("optimizer", optimizer);
///     state.add("early_stopping", early_stopping);
///     if (auto const found = store.newest()) state.load(*found);
///     ...
///     state.position = {epoch, batch + 1, seed};
///     auto writer = store.begin(step);
///     state.save(writer);
///     writer.commit();
class TrainingState {
 public:
  /// Position of a training in its data: the next batch.
  struct Position {
    Index epoch = 0;
    Index batch = 0;         ///< of that epoch
    std::uint64_t seed = 0;  ///< of the order of samples

    friend bool operator==(Position const&, Position const&) = default;
  };

  /// @param comm all ranks of the checkpoints @param model must outlive this object
  TrainingState(Comm comm, torch::nn::Module& model) : comm_(std::move(comm)), model_(&model) {}
  /// @param comm shard team and replicas @param sharded must outlive this object
  TrainingState(Comm comm, ShardedParameters& sharded) : comm_(std::move(comm)), model_(&sharded) {}

  /// Adds an optimizer of the model's parameters, or of their rows where they are sharded, under `name` in the file.
  /// @throws `BadName`
  void add(std::string name, torch::optim::Optimizer& optimizer);
  /// Adds any object with `save(CheckpointWriter&, std::string const& prefix) const` and `load(Checkpoint const&,
  /// std::string const& prefix)`, such as `EarlyStopping`. @throws `BadName`
  template <class Part>
  requires requires(Part& part, Part const& held, CheckpointWriter& writer, Checkpoint const& checkpoint) {
    held.save(writer, std::string());
    part.load(checkpoint, std::string());
  }
  void add(std::string name, Part& part) {
    add_part(std::move(name),
             {[&part](CheckpointWriter& writer, std::string const& prefix) { part.save(writer, prefix); },
              [&part](Checkpoint const& checkpoint, std::string const& prefix) { part.load(checkpoint, prefix); }});
  }

  Position position;

  /// Collective. @throws what `save_model` and `save_optimizer` throw
  void save(CheckpointWriter& writer) const;
  /// Collective. @throws what `load_model` and `load_optimizer` throw; `StateMismatch` (input) when the random state
  /// was saved by another version of LibTorch; `MissingVariable` (input)
  void load(Checkpoint const& checkpoint);

 private:
  struct Calls {
    std::function<void(CheckpointWriter&, std::string const&)> save;
    std::function<void(Checkpoint const&, std::string const&)> load;
  };
  void add_part(std::string name, Calls calls);

  Comm comm_;
  std::variant<torch::nn::Module*, ShardedParameters*> model_;
  std::vector<std::pair<std::string, Calls>> parts_;
};

}  // namespace graticule::training
