// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/gradient_sync.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/daso_schedule.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace graticule::training {

/// Type of the numbers in a message. Narrow messages carry the difference from the last values that all ranks had in
/// common, so that parameters themselves are never rounded; sums are made in f32.
enum class DasoWire : std::uint8_t {
  automatic,  ///< bf16 for parameters of f32, else their own type
  own,
  f32,
  bf16,
  f16,  ///< scaled by a power of two to the largest difference; one blocking all-reduce more
};

/// `auto`, `own`, `f32`, `bf16` or `f16`. @throws `UnknownMode` (usage)
[[nodiscard]] DasoWire daso_wire(std::string_view name);

/// What becomes of a module's buffers and an optimizer's moments.
enum class DasoPolicy : std::uint8_t {
  leave,        ///< each rank has its own
  average,      ///< as parameters; buffers of integers as `take_sender`; moments that are not made yet count as zeros
  take_sender,  ///< where a node takes the parameters of its member of a group, these too
};

/// Nodes of different numbers of ranks.
enum class UnequalNodes : std::uint8_t {
  by_modulo,  ///< rank i mod n of a node of n ranks is its member of group i; nodes count by their ranks
  refuse,
};

enum class DasoCheck : std::uint8_t { nan, finite };

/// Whose mean a loss is.
enum class LossIs : std::uint8_t { of_this_rank, averaged };

struct DasoOptions {
  DasoScheduleOptions schedule = {};
  /// Number of this rank's node; by default ranks that share memory are one.
  std::optional<int> node = {};
  UnequalNodes unequal_nodes = UnequalNodes::by_modulo;
  Index chunk = 10'000'000;             ///< most elements of one piece of a message, at most 2^30
  DasoWire wire = DasoWire::automatic;  ///< of blocking phases
  DasoWire stale_wire = DasoWire::own;  ///< of messages that are mixed in later
  DasoPolicy buffers = DasoPolicy::average;
  DasoPolicy moments = DasoPolicy::leave;  ///< for SGD, Adam, AdamW, RMSprop and Adagrad
  DasoCheck check = DasoCheck::nan;        ///< of what is sent
  /// Applied to gradients in every backward, before the mean within a node: `{domain, Reduction::sum}`.
  std::vector<nn::TeamRule> gradient_rules = {};
};

/// Since construction, of this rank.
struct DasoStats {
  Index num_sent = 0;      ///< messages
  Index num_pieces = 0;    ///< of them
  Index bytes_sent = 0;    ///< between nodes
  Index num_merged = 0;    ///< messages mixed in after a wait
  Index num_replaced = 0;  ///< messages waited for at once
};

/// Distributed, asynchronous and selective optimization: data parallelism that averages gradients within nodes and
/// parameters between nodes, now and then and without waiting (see `DasoSchedule`).
///
/// `world` is the ranks that hold the same parameters and other samples; one domain team's ranks each have a world of
/// their own. Made for a module and any optimizer of its parameters; both outlive it. A learning rate's scheduler steps the
/// optimizer as ever. Parameters that need no gradient are not sent.
/// Example:
///     nn::Daso daso(*model, optimizer, world, {.schedule = {.total_epochs = 30}});
///     daso.set_last_batch(num_batches - 1);
///     for (...) { for (...) { daso.zero_grad(); loss(...).backward(); daso.step(); } daso.epoch_loss(mean_loss); }
///
/// Calls are collective over `world`; a backward communicates within a node, `step`, as the schedule says, within a group.
/// Gradients are reduced while the backward runs, by the engine of `DataParallel`: `.grad` is reduced when `backward()`
/// returns. A parameter that some ranks have no gradient of counts as zero there. What one rank finds wrong with what it sends is an error on all ranks when
/// the message is waited for. Numbers are the same in every run, and for every MPI library.
/// Cost: a message of n elements over P nodes sends 2 n (P - 1) / P elements a rank of the group.
class Daso {
 public:
  /// Copies parameters and buffers of rank 0 to the others.
  /// @throws `ReplicaMismatch`, `DasoDisagreement` for options that differ, `NothingToTrain`, `BadOption`,
  ///         `UnequalNodes`, `UnsupportedOptimizer` for moments that are not known and for LBFGS, `WrappedTwice`; on all ranks
  Daso(torch::nn::Module const& module, torch::optim::Optimizer& optimizer, Comm const& world, DasoOptions options);
  Daso(Daso&&) noexcept;
  Daso& operator=(Daso&&) = delete;
  ~Daso();

  /// Before the first step. @throws `LastBatchDiffers` on all ranks; see `DasoSchedule::set_last_batch`
  void set_last_batch(Index last_batch);
  void zero_grad();
  /// Reduces gradients that were given without a backward, steps the optimizer, then communicates. After an error that a
  /// message brought, only `load_state` makes this usable again (`DasoFailed`).
  /// @throws `PeerFailed` where another rank's backward has thrown, as the backward does; `NotFinite`, naming a parameter
  ///         and a rank; `FrozenChanged` where a parameter's `requires_grad` changed
  ///         within an epoch; `LastBatchUnset`
  void step();
  /// After an epoch's last step; changes of `requires_grad` are taken up here.
  /// @throws `EpochUnfinished`, `FrozenDiffers` where they are not the same on all ranks
  void epoch_loss(double loss, LossIs whose = LossIs::of_this_rank);
  /// Lets messages on their way proceed, without blocking; `step` does so too.
  void progress();

  /// Mixes in what is on its way.
  void drain();
  /// Drains, and gives all ranks the mean of all nodes' parameters: before a checkpoint within an epoch, whose ranks
  /// otherwise differ.
  void synchronize();
  /// The schedule's. @throws `NotDrained`
  [[nodiscard]] Values state() const;
  /// After parameters, and moments if they are not left, have been loaded; those of rank 0 count.
  void load_state(Values const& values);

  [[nodiscard]] DasoSchedule const& schedule() const noexcept;
  [[nodiscard]] DasoStats stats() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule::training
