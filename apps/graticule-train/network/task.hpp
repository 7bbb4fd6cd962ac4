// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/model.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>

#include "trained_network.hpp"

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace graticule::train {

/// A network's forward, sharded or not.
using Forward = std::function<torch::Tensor(torch::Tensor const& inputs, torch::Tensor const& statics)>;

/// The samples of a batch that fall to this team, and what they count in the loss of the batch.
///
/// A team whose part has no weight takes some sample nevertheless, with the weight 0: it must run its forward and
/// backward, because other teams may wait for its gradients.
struct Share {
  std::span<Index const> batch;  ///< of all teams
  std::vector<Index> samples;    ///< of this team
  double weight = 0;             ///< of this team's part
  double batch_weight = 0;
};

/// What a network is trained for: its samples, and their loss.
class Task {
 public:
  Task() = default;
  Task(Task const&) = delete;
  Task& operator=(Task const&) = delete;
  virtual ~Task() = default;

  [[nodiscard]] virtual std::shared_ptr<Model> make_network() const = 0;
  /// All that the losses depend on besides the settings of the network, one line each.
  [[nodiscard]] virtual std::string settings_text() const = 0;
  [[nodiscard]] virtual std::vector<Index> const& training() const = 0;
  [[nodiscard]] virtual std::vector<Index> const& validation() const = 0;
  /// What a sample counts in the loss.
  [[nodiscard]] virtual double weight_of(Index sample) const = 0;

  /// Before an epoch's steps, and before a validation with the number of the epoch that has ended.
  virtual void begin_epoch(Index /*epoch*/) {}
  /// What this team adds to the loss of a batch, which is normalised by the weight of all of its samples. Collective
  /// over all ranks. @param upcoming this team's samples after these
  [[nodiscard]] virtual torch::Tensor share_of_loss(Forward const& forward, Share const& share,
                                                    std::span<Index const> upcoming) = 0;
  /// Whether the backward of a loss runs further ones inside, as checkpoints of activations do: then gradients are
  /// reduced after it, because teams may run different numbers of them.
  [[nodiscard]] virtual bool nests_backwards() const { return false; }
  /// Of all validation samples, without gradients; none: the mean of `share_of_loss` counts. Collective over all ranks.
  [[nodiscard]] virtual std::optional<double> validate(Forward const& /*forward*/, Index /*epoch*/, Index /*step*/) {
    return {};
  }
  /// Adds what a program needs that runs the network. Collective over all ranks.
  virtual void describe(CheckpointWriter& /*writer*/) const {}
  /// Whether `describe` makes a checkpoint that programs can run.
  [[nodiscard]] virtual bool is_runnable() const { return false; }
  /// At the end, without gradients. Collective over all ranks.
  virtual void predict(Forward const& forward) = 0;
};

/// Trains on a task; see `train_network`.
[[nodiscard]] TrainedNetwork train_on_task(DataTeams const& teams, Task& task, NetworkSettings const& settings,
                                           TrainingControl const& control);

/// Errors of a loss: weighted, over all cells with a target of the ranks of a domain.
using Loss = std::function<torch::Tensor(torch::Tensor const& prediction, torch::Tensor const& target)>;
/// By the settings' kind. Collective. Predictions of `LossKind::crps` have an axis of members after that of samples.
/// @param num_columns of the whole grid
[[nodiscard]] Loss make_loss(NetworkSettings const& settings, nn::Domain const& domain, nn::LossOptions const& options,
                             Index num_columns);

}  // namespace graticule::train
