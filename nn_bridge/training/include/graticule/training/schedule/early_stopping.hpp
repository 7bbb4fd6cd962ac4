// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>

#include <limits>
#include <string>

namespace graticule::training {

/// Stops a training whose validation loss no longer decreases.
///
/// Every rank must observe the same losses. Example: patience 2, losses 5, 4, 4, 4: `observe` returns false, false,
/// false, true.
class EarlyStopping {
 public:
  /// @param patience number of observations without improvement that ends the training
  /// @param min_improvement fraction of the best loss by which a loss must be lower to count as an improvement
  /// @throws `BadOption` for a patience below 1 or an improvement outside [0, 1)
  explicit EarlyStopping(Index patience, double min_improvement = 0);

  /// @return whether to stop. NaN is no improvement.
  [[nodiscard]] bool observe(double loss);

  [[nodiscard]] double best() const noexcept { return best_; }
  [[nodiscard]] Index num_without_improvement() const noexcept { return num_bad_; }
  [[nodiscard]] bool stopped() const noexcept { return num_bad_ >= patience_; }

  /// Saves the observations, not the patience. Collective.
  void save(CheckpointWriter& writer, std::string const& prefix) const;
  /// @throws `MissingVariable`, `WrongType` (input)
  void load(Checkpoint const& checkpoint, std::string const& prefix);

 private:
  Index patience_;
  double min_improvement_;
  double best_ = std::numeric_limits<double>::infinity();
  Index num_bad_ = 0;
};

}  // namespace graticule::training
