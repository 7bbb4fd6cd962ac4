// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/schedule/early_stopping.hpp>

#include <cmath>

namespace graticule::training {

EarlyStopping::EarlyStopping(Index patience, double min_improvement)
    : patience_(patience), min_improvement_(min_improvement) {
  if (patience < 1) throw Error("BadOption", "patience " + std::to_string(patience) + "; at least 1 is required");
  if (!(min_improvement >= 0 && min_improvement < 1))
    throw Error("BadOption",
                "an improvement of " + std::to_string(min_improvement) + "; a value in [0, 1) is required");
}

bool EarlyStopping::observe(double loss) {
  double const margin = std::isinf(best_) ? 0 : min_improvement_ * std::abs(best_);
  if (loss < best_ - margin) {
    best_ = loss;
    num_bad_ = 0;
  } else {
    ++num_bad_;
  }
  return stopped();
}

void EarlyStopping::save(CheckpointWriter& writer, std::string const& prefix) const {
  writer.add_value(prefix + "/best", best_);
  writer.add_value(prefix + "/num_without_improvement", num_bad_);
}

void EarlyStopping::load(Checkpoint const& checkpoint, std::string const& prefix) {
  auto const best = checkpoint.value<double>(prefix + "/best");
  num_bad_ = checkpoint.value<Index>(prefix + "/num_without_improvement");
  best_ = best;
}

}  // namespace graticule::training
