// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/writer.hpp>

#include "run.hpp"

#include <filesystem>

namespace graticule::train {

/// A file of `u_truth`, `u_prediction` and `u_difference` (prediction - truth) of every target u, with the coordinates
/// of the input file: latitude and longitude last, samples before. Missing cells hold the fill value.
///
/// All calls are collective over all ranks of the training. @throws `OutputError`
class PredictionFile {
 public:
  /// Defines everything, so that a disk that is too small is detected at once. `result` must outlive this.
  PredictionFile(RunResult const& result, RunSettings const& settings, std::filesystem::path const& path);

  /// Writes some samples of each team; the teams may have different numbers of them, and none.
  void write(PredictedFields const& predicted);
  /// Gives the file its name. @pre every sample was written
  void commit() { writer_.commit(); }

 private:
  [[nodiscard]] Box box_of(Index sample) const;

  RunResult const& result_;
  FieldWriter writer_;
};

}  // namespace graticule::train
