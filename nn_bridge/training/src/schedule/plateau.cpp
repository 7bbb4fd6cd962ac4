// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/detail/plateau.hpp>
#include <graticule/training/detail/values.hpp>

#include <cmath>
#include <limits>
#include <string>

namespace graticule::training::detail {

PlateauDetector::PlateauDetector(PlateauOptions const& options)
    : options_(options), best_(std::numeric_limits<double>::infinity()) {
  if (options.goal == PlateauGoal::highest) best_ = -best_;
  if (!(options.threshold >= 0))
    throw Error("BadOption", "a plateau's threshold must be at least 0, got " + std::to_string(options.threshold));
  if (options.patience < 0 || options.cooldown < 0)
    throw Error("BadOption", "a plateau's patience and cooldown must be at least 0, got " +
                                 std::to_string(options.patience) + " and " + std::to_string(options.cooldown));
}

bool PlateauDetector::is_better(double value) const noexcept {
  bool const lowest = options_.goal == PlateauGoal::lowest;
  // Of an infinite best, a part is no number.
  if (std::isinf(best_)) return lowest ? value < best_ : value > best_;
  double const t = lowest ? -options_.threshold : options_.threshold;
  double const limit = options_.kind == PlateauThreshold::absolute ? best_ + t : best_ * (best_ < 0 ? 1 - t : 1 + t);
  return lowest ? value < limit : value > limit;
}

bool PlateauDetector::add(double value) {
  if (is_better(value)) {
    best_ = value;
    num_bad_ = 0;
  } else {
    ++num_bad_;
  }
  if (in_cooldown()) {
    --cooldown_left_;
    num_bad_ = 0;
  }
  if (num_bad_ <= options_.patience) return false;
  num_bad_ = 0;
  cooldown_left_ = options_.cooldown;
  return true;
}

Values PlateauDetector::state() const {
  return {{"best", best_}, {"num_bad", num_bad_}, {"cooldown_left", cooldown_left_}};
}

void PlateauDetector::load_state(Values const& values) {
  auto const best = value_of<double>(values, "best");
  auto const num_bad = value_of<Index>(values, "num_bad");
  auto const cooldown_left = value_of<Index>(values, "cooldown_left");
  best_ = best;
  num_bad_ = num_bad;
  cooldown_left_ = cooldown_left;
}

}  // namespace graticule::training::detail
