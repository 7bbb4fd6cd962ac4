// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/series.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/pull.hpp>

#include "grid.hpp"
#include "samples.hpp"

#include <string>
#include <vector>

namespace graticule::train {

/// What a field is, without its values.
struct FieldInfo {
  std::string name;
  std::string units;
  std::string long_name;
  std::string standard_name;
  Component component = Component::scalar;
  Parity parity = Parity::even;
  bool is_potential = false;
};

/// A field's values on one rank: [sample][row][column] of its owned box, NaN where missing.
struct Field {
  FieldInfo info;
  std::vector<double> values;
};

/// The fields of a file, or of a series of files, that a training needs: checked for one grid and one set of samples, read by boxes.
class FieldTable {
 public:
  /// Collective. @throws what `FieldSeries` and `make_grid` throw; `SampleMismatch` (input) when two variables differ in
  ///         grid or sample axes, `EmptyVariable` when there are no samples
  /// @param files a name, or a shell pattern of files that follow each other in time
  FieldTable(Comm const& comm, std::string const& files, std::vector<std::string> const& names);

  [[nodiscard]] Grid const& grid() const noexcept { return grid_; }
  [[nodiscard]] SampleAxes const& samples() const noexcept { return samples_; }
  [[nodiscard]] std::string const& latitude_name() const noexcept { return latitude_name_; }
  [[nodiscard]] std::string const& longitude_name() const noexcept { return longitude_name_; }
  [[nodiscard]] FieldInfo info(std::string const& name) const;

  /// Reads the cells of `box` (latitude, longitude), all samples. Collective.
  [[nodiscard]] Field read(std::string const& name, Box const& box) const;
  /// Reads the first `num_samples` samples of the mirror image across the equator: row i holds row n-1-i, northward
  /// components with their sign changed. Collective. @pre the grid is symmetric, `num_samples` is a multiple of the
  /// levels
  [[nodiscard]] Field read_mirrored(std::string const& name, Box const& box, Index num_samples) const;

 private:
  [[nodiscard]] std::vector<double> read_samples(std::string const& name, Box const& box, Index num_first) const;

  FieldSeries file_;
  Grid grid_;
  SampleAxes samples_;
  std::string latitude_name_;
  std::string longitude_name_;
};

}  // namespace graticule::train
