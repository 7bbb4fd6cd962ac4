// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/training/state/values.hpp>

#include <cstdint>

namespace graticule::training::detail {

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
/// below best - threshold; for the goal `highest` above, with opposite signs. The first value is better than none, NaN
/// never is.
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
  [[nodiscard]] PlateauOptions const& options() const noexcept { return options_; }

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

}  // namespace graticule::training::detail
