// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/model.hpp>
#include <graticule/training/state/training.hpp>

#include "trained_network.hpp"

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>

namespace graticule::train {

/// Storage of a network's parameters on the ranks, and reduction of its gradients.
///
/// A step: `zero_grad`, a `forward` and backward of the team's share of the loss times `loss_factor`, `step`. All calls
/// are collective over all ranks, forwards included where parameters are cut.
class Updater {
 public:
  Updater() = default;
  Updater(Updater const&) = delete;
  Updater& operator=(Updater const&) = delete;
  virtual ~Updater() = default;

  /// Of the network, in the type that it computes with.
  virtual torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics) = 0;
  virtual void zero_grad() = 0;
  virtual void step() = 0;
  /// After an epoch's last step. @param loss its mean, of the whole batches
  virtual void end_epoch(double /*loss*/) {}
  /// Applies pending messages: parameters are then equal on all teams and may be saved.
  virtual void settle() {}

  /// Backwards while the result exists keep their gradients for the next one, which reduces all. @throws `Unsupported`
  [[nodiscard]] virtual std::shared_ptr<void> hold_gradients() = 0;
  /// Reduces gradients of backwards that were all held. @throws `Unsupported`
  virtual void reduce_held() = 0;
  /// Between backward and step. @throws `Unsupported`
  virtual void clip(double max_norm) = 0;

  [[nodiscard]] virtual torch::optim::Optimizer& optimizer() = 0;
  /// What the shares of the teams are multiplied by, so that the gradients are those of the whole batch.
  [[nodiscard]] virtual double loss_factor() const { return 1; }
  /// For a checkpoint: network, optimizer and further state.
  [[nodiscard]] virtual training::TrainingState& state() = 0;
  /// Under the network's own names and in their order.
  [[nodiscard]] virtual nn::NamedTensors whole_parameters() const = 0;
  /// What this rank has sent and holds; for the report.
  [[nodiscard]] virtual std::map<std::string, Index> figures() const = 0;
};

/// @param model has its first values; those of the first rank count
[[nodiscard]] std::unique_ptr<Updater> make_updater(DataTeams const& teams, std::shared_ptr<Model> model,
                                                    NetworkSettings const& settings, Index steps_per_epoch);

}  // namespace graticule::train
