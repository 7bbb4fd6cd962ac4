// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/training/values.hpp>

#include <cstdint>
#include <string_view>

namespace graticule::training {

/// Which values of a metric are better.
enum class PlateauGoal : std::uint8_t { lowest, highest };
/// What a threshold is a part of: the best value, or nothing.
enum class PlateauThreshold : std::uint8_t { relative, absolute };

/// `min` or `max`, `rel` or `abs`. @throws `UnknownMode` (usage)
[[nodiscard]] PlateauGoal plateau_goal(std::string_view name);
[[nodiscard]] PlateauThreshold plateau_threshold(std::string_view name);

struct PlateauOptions {
  PlateauGoal goal = PlateauGoal::lowest;
  PlateauThreshold kind = PlateauThreshold::relative;
  double threshold = 1e-4;  ///< how much better than the best value counts as better
  Index patience = 10;      ///< values in a row that are no better, until one more makes a plateau
  Index cooldown = 0;       ///< values after a plateau that do not count
};

/// Finds the epoch at which a loss has stopped getting better. No communication: feed the same values on all ranks.
///
/// A value is better when it is below best * (1 - threshold), with a negative best below best * (1 + threshold), or below
/// best - threshold; for the goal `highest` above, with the signs turned. The first value is better than none, NaN never is.
/// Example: `{.threshold = 0.05, .patience = 2}` given 1.0, 0.97, 0.96, 0.955: the fourth makes a plateau.
class PlateauDetector {
 public:
  /// @throws `BadOption` for a threshold that is negative or NaN, a negative patience or cooldown
  explicit PlateauDetector(PlateauOptions const& options);

  /// @return true when the value makes a plateau; counting then starts anew
  [[nodiscard]] bool add(double value);

  [[nodiscard]] double best() const noexcept { return best_; }
  [[nodiscard]] Index num_bad() const noexcept { return num_bad_; }
  [[nodiscard]] bool in_cooldown() const noexcept { return cooldown_left_ > 0; }
  [[nodiscard]] PlateauOptions const& options() const noexcept { return options_; }

  /// All that `add` changes; options are not part of it.
  [[nodiscard]] Values state() const;
  /// @throws `MissingValue`, `WrongType` (input)
  void load_state(Values const& values);

 private:
  [[nodiscard]] bool is_better(double value) const noexcept;

  PlateauOptions options_;
  double best_;
  Index num_bad_ = 0;
  Index cooldown_left_ = 0;
};

}  // namespace graticule::training
