// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/detail/series_reader.hpp>
#include <graticule/models/fields.hpp>
#include <graticule/models/grid.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/parity.hpp>
#include <graticule/samples/detail/companions.hpp>
#include <graticule/samples/detail/samples.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace graticule::samples {

/// Reads one sample of one field at a time, on this rank's box.
///
/// Numbers from `num_in_file()` on are mirror images across the equator of the first samples: row i holds row n-1-i,
/// with the sign changed where `FieldInfo::mirror_negates` says so. Makes no MPI call; one thread at a time.
class SampleReader {
 public:
  struct Source {
    FieldInfo info;
    HorizontalAxes axes;
    std::vector<int> sample_axes;  ///< the variable's axes that a sample's number runs over, the last one fastest
    Indices fixed;                 ///< index along each axis of the variable that is neither of these
  };
  /// @param box rows and columns of this rank, @param num_rows of the whole grid
  SampleReader(SeriesReader reader, std::vector<Source> fields, SampleAxes samples, Box const& box, Index num_rows,
               Index num_mirrored);

  [[nodiscard]] std::size_t num_fields() const noexcept { return fields_.size(); }
  [[nodiscard]] FieldInfo const& info(std::size_t field) const { return fields_.at(field).info; }
  [[nodiscard]] Index num_levels() const noexcept { return samples_.num_levels(); }
  [[nodiscard]] Index num_in_file() const noexcept { return samples_.num_samples(); }
  [[nodiscard]] Index num_samples() const noexcept { return num_in_file() + num_mirrored_; }
  [[nodiscard]] Index num_cells() const noexcept { return box_.extent(0) * box_.extent(1); }
  /// Of one sample of a field.
  [[nodiscard]] Index stored_bytes(std::size_t field) const {
    return num_cells() * reader_.value_bytes(info(field).name);
  }

  /// @throws as `SeriesReader::read`
  [[nodiscard]] StoredCells read(Index sample, std::size_t field);
  /// What was read of this sample and field as numbers [row][column]; NaN where missing.
  void unpack(Index sample, std::size_t field, StoredCells const& cells, std::span<double> values) const;

 private:
  SeriesReader reader_;
  std::vector<Source> fields_;
  SampleAxes samples_;
  Box box_;
  Index num_rows_;
  Index num_mirrored_;
};

/// Rethrows errors about the input with its name in front, where their text has none.
void naming_input(std::string const& files, std::function<void()> const& action);

/// Whether a variable can be trained on. @throws the error of its refusal, such as a filter that is lacking; `BadInput`
/// (input) for the dimension `expver` of ERA5, along which each time has values in one place only
void require_trainable(FileContents const& contents, Variable const& variable);

/// Last columns that repeat the first ones: an error that says how to remove them, or left out.
enum class RepeatedColumn : std::uint8_t { refuse, drop };

/// Leaves repeated last columns out. @return whether there were any
bool drop_repeated(std::vector<double>& longitudes);

/// The grid of two dimensions of a series. Longitudes that pass 180 or 360 degrees on their way count on: 359, 0, 1
/// become 359, 360, 361. Collective.
/// @throws what `FieldSeries::coordinate` and `make_grid` throw; `BadCoordinates` (input) for a repeated column
[[nodiscard]] Grid grid_of(FieldSeries const& file, std::string const& latitude, std::string const& longitude,
                           RepeatedColumn repeated = RepeatedColumn::refuse);

/// The coordinate of a dimension, unless there is none that holds numbers.
[[nodiscard]] Variable const* readable_coordinate(FieldSeries const& file, std::string const& dimension);

/// What the attributes of a variable say of it.
[[nodiscard]] FieldInfo describe_field(Variable const& variable);

/// The fields of a file, or of a series of files, that a training needs: checked for one grid and one set of samples.
class FieldTable {
 public:
  /// Collective. @throws what `FieldSeries` and `make_grid` throw; `BadInput` (input) when two variables differ
  ///         in grid or sample axes, `BadInput` when there are no samples
  /// @param files a name, or a shell pattern of files that are consecutive in time
  FieldTable(Comm const& comm, std::string const& files, std::vector<std::string> const& names,
             RepeatedColumn repeated = RepeatedColumn::refuse);

  [[nodiscard]] Grid const& grid() const noexcept { return grid_; }
  [[nodiscard]] SampleAxes const& samples() const noexcept { return samples_; }
  [[nodiscard]] std::string const& latitude_name() const noexcept { return latitude_name_; }
  [[nodiscard]] std::string const& longitude_name() const noexcept { return longitude_name_; }
  [[nodiscard]] FieldInfo info(std::string const& name) const;
  [[nodiscard]] Variable const& variable(std::string const& name) const { return file_.variable(name); }
  [[nodiscard]] FieldSeries const& file() const noexcept { return file_; }
  /// The `history` of the first file.
  [[nodiscard]] std::string history() const;
  /// What describes the axes and these fields. Collective over the ranks of the constructor.
  [[nodiscard]] CompanionSet companions(Comm const& comm, std::vector<std::string> const& names) const;

  /// What reads these fields on this rank's `box` (latitude, longitude) by itself. Not collective.
  /// @param num_mirrored mirror images that there are, of the first samples; @pre then the grid is symmetric
  [[nodiscard]] SampleReader reader(std::vector<std::string> const& names, Box const& box, Index num_mirrored) const;

 private:
  void look_at(std::vector<std::string> const& names, RepeatedColumn repeated);

  FieldSeries file_;
  Grid grid_;
  SampleAxes samples_;
  std::string latitude_name_;
  std::string longitude_name_;
};

}  // namespace graticule::samples
