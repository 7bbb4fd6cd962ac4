// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/training/daso/schedule.hpp>
#include <graticule/training/state/values.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace graticule::training {

namespace detail {

/// Direction in which a metric improves.
enum class PlateauGoal : std::uint8_t { lowest, highest };
/// Whether a threshold is relative to the best value or absolute.
enum class PlateauThreshold : std::uint8_t { relative, absolute };

/// Options of `PlateauDetector`.
struct PlateauOptions {
  PlateauGoal goal = PlateauGoal::lowest;
  PlateauThreshold kind = PlateauThreshold::relative;
  double threshold = 1e-4;  ///< required improvement over the best value
  Index patience = 10;      ///< consecutive values that are no better, until one more is a plateau
  Index cooldown = 0;       ///< values after a plateau that are ignored
};

/// Detects the epoch at which a loss has stopped improving. No communication: pass the same values on all ranks.
///
/// A value is better when it is below best * (1 - threshold), with a negative best below best * (1 + threshold), or
/// below best - threshold; for the goal `highest` above, with opposite signs. The first value is better, NaN never is.
/// Example: `{.threshold = 0.05, .patience = 2}` given 1.0, 0.97, 0.96, 0.955: the fourth is a plateau.
class PlateauDetector {
 public:
  /// @throws `BadOption` for a threshold that is negative or NaN, a negative patience or cooldown
  explicit PlateauDetector(PlateauOptions const& options);

  /// @return true when the value is a plateau; counting then restarts
  [[nodiscard]] bool add(double value);

  [[nodiscard]] double best() const noexcept { return best_; }
  [[nodiscard]] Index num_bad() const noexcept { return num_bad_; }
  [[nodiscard]] bool in_cooldown() const noexcept { return cooldown_left_ > 0; }

  /// The state that `add` changes; options are not part of it.
  [[nodiscard]] Values state() const;
  /// @throws `MissingVariable`, `WrongType` (input)
  void load_state(Values const& values);

 private:
  [[nodiscard]] bool is_better(double value) const noexcept;

  PlateauOptions options_;
  double best_;
  Index num_bad_ = 0;
  Index cooldown_left_ = 0;
};

}  // namespace detail

/// Schedule of DASO (Coquelin et al. 2021, doi:10.1186/s40537-021-00556-1): decisions only, no messages.
///
/// During warm-up and cool-down every batch ends with a blocking average over all nodes. In between, parameters are
/// sent every `global_skip` batches and merged `batches_to_wait` batches later; gradients are averaged within nodes
/// every `local_skip` batches. When the loss reaches a plateau, the skips are divided; once they reach 1 they restart.
/// All ranks of a world use the same options, calls and losses. A message is merged at most `global_skip` batches after
/// it was sent, and none is left at the end of an epoch.
/// Example, 2 groups, global skip 4, local skip 1, 1 batch to wait, 10 batches: sends at batches 0, 4, 8 and 9, by
/// groups 0, 1, 0, 1; merges at 1, 5 and 9; at 9 the message just sent replaces all parameters.
class DasoSchedule {
 public:
  /// Composition of the parameters of a message.
  enum class Phase : std::uint8_t { blocking, cycling };

  /// One communication. All ranks get the same list and take part according to their group.
  struct Action {
    /// The step of the schedule that the ranks perform.
    enum class Kind : std::uint8_t {
      send,     ///< the ranks of `group` post the sum of their parameters over the group
      merge,    ///< they wait for the message sent with `weight` and merge it: see `merge_weight`
      replace,  ///< they wait for the message just sent; its mean is the new value of their parameters
      share,    ///< on each node the rank of `group` sends its parameters to the others
    };
    Kind kind = Kind::send;
    int group = 0;
    Index weight = 0;               ///< of `send` and `merge`: batches to wait, as at the time of sending
    Phase phase = Phase::blocking;  ///< of `send`

    /// n in x <- (n x + S) / (P + n), where S is the sum of the sent values over the P ranks of the group.
    [[nodiscard]] constexpr Index merge_weight() const noexcept { return weight > 0 ? 2 * weight : 1; }
    friend bool operator==(Action const&, Action const&) = default;
  };

  /// @param options see `DasoScheduleOptions` @param num_groups ranks of the largest node
  /// @throws `BadOption` for epochs and factors below 1, negative warm-up, cool-down, skips, stability or patience,
  ///         and, except with `heat`, overlapping warm-up and cool-down
  DasoSchedule(DasoScheduleOptions const& options, int num_groups);

  /// Index of an epoch's last batch, one less than the number of batches. May change between epochs.
  /// @throws `BadOption` when it is negative, `WrongState` within an epoch
  void set_last_batch(Index last_batch);

  /// Communications after the optimizer's step of one batch, in order. @throws `WrongState`
  [[nodiscard]] std::vector<Action> step();
  /// Once after each epoch; after the last one all skips are 0. @param loss mean over all ranks; NaN is no better
  /// @throws `WrongState` when batches of the epoch are missing
  void epoch_loss(double loss);
  /// Communications that end messages in flight, before a checkpoint. The schedule changes only by that merge.
  [[nodiscard]] std::vector<Action> drain();

  [[nodiscard]] Index epoch() const noexcept { return epoch_; }
  [[nodiscard]] Index batch() const noexcept { return batch_; }
  [[nodiscard]] Index global_skip() const noexcept { return global_skip_; }
  [[nodiscard]] Index local_skip() const noexcept { return local_skip_; }
  [[nodiscard]] Index batches_to_wait() const noexcept { return batches_to_wait_; }
  [[nodiscard]] Phase phase() const noexcept { return global_skip_ == 0 ? Phase::blocking : Phase::cycling; }
  /// Whether gradients of the next backward are averaged within nodes.
  [[nodiscard]] bool local_sync() const noexcept { return local_sync_; }
  [[nodiscard]] bool drained() const noexcept { return !pending_; }

  /// The state that the calls above change. @throws `WrongState` while a message is in flight
  [[nodiscard]] Values state() const;
  /// @throws `MissingVariable`, `WrongType`, `BadInput` (input); the schedule is then unchanged
  void load_state(Values const& values);

 private:
  struct Message {
    int group = 0;
    Index weight = 0;
  };
  void begin_cycling();
  void set_skips(Index global, Index local, Index wait);
  void reduce_skips();
  void restart_skips();
  void global_sync(Index weight, std::vector<Action>& actions);
  void cycle(Index weight, std::vector<Action>& actions);
  void receive(std::vector<Action>& actions);

  DasoScheduleOptions options_;
  int num_groups_;
  detail::PlateauDetector plateau_;
  Index epoch_ = 0;
  Index batch_ = 0;
  Index last_batch_ = -1;
  Index global_skip_ = 0;
  Index local_skip_ = 0;
  Index batches_to_wait_ = 0;
  int group_ = 0;
  std::optional<int> previous_;     ///< group of the last message that was not waited for immediately
  std::optional<Message> pending_;  ///< that message, while it is in flight
  bool local_sync_ = true;
};

}  // namespace graticule::training
