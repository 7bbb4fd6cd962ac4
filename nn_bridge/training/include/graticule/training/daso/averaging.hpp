// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/daso/schedule.hpp>
#include <graticule/training/data_parallel/gradient_wire.hpp>
#include <graticule/training/detail/daso_schedule.hpp>
#include <graticule/training/state/values.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::training {

/// Treatment of a module's buffers and an optimizer's moments.
enum class DasoPolicy : std::uint8_t {
  leave,        ///< each rank keeps its own
  average,      ///< as parameters; buffers of integers as `copy_sender`; moments that do not exist yet count as zeros
  copy_sender,  ///< with the parameters that a node takes from its member of a group
};

/// Treatment of nodes with different numbers of ranks.
enum class UnequalNodes : std::uint8_t {
  by_modulo,  ///< rank i mod n of a node of n ranks is its member of group i; nodes are weighted by their ranks
  refuse,
};

/// Values that a check of parameters detects: NaN only, or infinities as well.
enum class DasoCheck : std::uint8_t { nan, finite };

/// Ranks over which a loss is a mean.
enum class LossIs : std::uint8_t { of_this_rank, averaged };

/// Options of `Daso`.
struct DasoOptions {
  DasoScheduleOptions schedule = {};
  /// Number of this rank's node; by default ranks that share memory form a node.
  std::optional<int> node = {};
  UnequalNodes unequal_nodes = UnequalNodes::by_modulo;
  Index chunk = 10'000'000;     ///< maximum elements of one piece of a message, at most 2^30
  Wire wire = Wire::automatic;  ///< of blocking phases
  Wire stale_wire = Wire::own;  ///< of messages that are merged later
  DasoPolicy buffers = DasoPolicy::average;
  DasoPolicy moments = DasoPolicy::leave;  ///< for SGD, Adam, AdamW, RMSprop and Adagrad
  DasoCheck check = DasoCheck::nan;        ///< of sent values
  /// Applied to gradients in every backward, before the mean within a node: `{domain, Reduction::sum}`.
  std::vector<nn::TeamRule> gradient_rules = {};
};

/// Distributed, asynchronous and selective optimization: data parallelism that averages gradients within nodes, and
/// parameters between nodes from time to time and without waiting (see `DasoSchedule`).
///
/// `world` holds the ranks with the same parameters and different samples; each rank of a domain team has a world of
/// its own. Constructed for a module and any optimizer of its parameters; both outlive it. A scheduler of the learning
/// rate works as usual. Parameters that need no gradient are not sent.
/// Example:
///     training::Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 30}});
///     daso.set_last_batch(num_batches - 1);
///     for (...) { for (...) { daso.zero_grad(); loss(...).backward(); daso.step(); } daso.epoch_loss(mean_loss); }
///
/// Calls are collective over `world`; a backward communicates within a node, `step` within a group, according to the
/// schedule. Gradients are reduced while the backward runs, by the engine of `DataParallel`: `.grad` is reduced when
/// `backward()` returns. A parameter without gradient on some ranks counts as zero there. An error in the values that
/// one rank sends is an error on all ranks when they wait for the message. Results are the same in every run, and for
/// every MPI library.
/// Cost: a message of n elements over P nodes sends 2 n (P - 1) / P elements per rank of the group.
class Daso {
 public:
  /// Traffic of this rank since construction.
  struct Stats {
    Index num_sent = 0;      ///< messages
    Index num_pieces = 0;    ///< of these messages
    Index bytes_sent = 0;    ///< between nodes
    Index num_merged = 0;    ///< messages merged after a delay
    Index num_replaced = 0;  ///< messages waited for immediately
  };

  /// Copies parameters and buffers of rank 0 to the others.
  /// @throws `ReplicaMismatch`, `ArgumentDisagreement` for options that differ, `NoParameters`, `BadOption`,
  ///         `BadProcessGrid`, `Unsupported` for unknown moments and for LBFGS, `WrongState`; on all ranks
  Daso(torch::nn::Module const& module, torch::optim::Optimizer& optimizer, Comm const& world, DasoOptions options);
  Daso(Daso&&) noexcept;
  Daso& operator=(Daso&&) = delete;
  ~Daso();

  /// Before the first step. @throws `ArgumentDisagreement` on all ranks; see `DasoSchedule::set_last_batch`
  void set_last_batch(Index last_batch);
  void zero_grad();
  /// Reduces gradients that were set without a backward, steps the optimizer, then communicates. After an error in a
  /// message, only `load_state` makes this object usable again (`WrongState`).
  /// @throws `PeerFailed` where another rank's backward has thrown, as the backward does; `NotFinite`, with a parameter
  ///         and a rank; `ParametersChanged` where a parameter's `requires_grad` changed
  ///         within an epoch; `WrongState`
  void step();
  /// To be called after the last step of an epoch; changes of `requires_grad` take effect here.
  /// @throws `WrongState`, `ArgumentDisagreement` where they differ between ranks
  void epoch_loss(double loss, LossIs whose = LossIs::of_this_rank);
  /// Lets messages in flight progress, without blocking; so does `step`.
  void progress();

  /// Completes and merges messages in flight.
  void drain();
  /// Drains, and sets the parameters of all ranks to the mean of all nodes: before a checkpoint within an epoch, where
  /// the ranks otherwise differ.
  void synchronize();
  /// The schedule's state. @throws `WrongState`
  [[nodiscard]] Values state() const;
  /// To be called after parameters, and moments unless they are `leave`, have been loaded; those of rank 0 count.
  void load_state(Values const& values);
  /// The same as a part of a checkpoint: `TrainingState::add("daso", daso)`. Collective.
  void save(CheckpointWriter& writer, std::string const& prefix) const;
  /// @throws `MissingVariable`, `WrongType` (input)
  void load(Checkpoint const& checkpoint, std::string const& prefix);

  [[nodiscard]] DasoSchedule const& schedule() const noexcept;
  [[nodiscard]] Stats stats() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule::training
