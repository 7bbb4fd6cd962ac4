// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/file.hpp>

#include <string>
#include <vector>

namespace graticule {

/// The files that a shell pattern (`*`, `?`, `[...]`) matches, in the order of their names, numbers in them by value:
/// `run_2.nc` comes before `run_10.nc`. A name without such characters stands for itself. Found by rank 0; collective.
/// @throws `NoSuchFile` (input) when nothing matches
[[nodiscard]] std::vector<std::filesystem::path> find_files(Comm const& comm, std::string const& pattern);

struct FieldSeriesOptions {
  std::string dimension = {};  ///< to join along; none: the unlimited one if there is one, else the first axis of most
  int most_open = 4;           ///< files open at once
  FieldFileOptions file = {};
};

/// Several files of the same variables, one after the other in time: read as if they were one file.
///
/// Variables along the joined dimension are as long as in all files together; the others are those of the first file.
/// Every file unpacks by its own scale, offset and fill value; `contents` shows those of the first one.
/// Example: `era5_2000.nc` and `era5_2001.nc` hold `t(time=8784, ...)` and `t(time=8760, ...)`: the series holds
/// `t(time=17544, ...)`, and the box [8780, 8790) along time has 4 cells of the first and 6 of the second file.
class FieldSeries {
 public:
  /// Opens each file once and compares it with the first. Collective.
  /// @throws as `FieldFile`; `SeriesMismatch` (input) when variables, their axes or units, or other coordinates differ;
  /// `UnsortedSeries` (input) when the joined coordinate does not keep rising, or falling, from file to file
  FieldSeries(Comm const& comm, std::vector<std::filesystem::path> files, FieldSeriesOptions const& options = {});
  FieldSeries(FieldSeries&&) noexcept;
  FieldSeries& operator=(FieldSeries&&) noexcept;
  ~FieldSeries();

  /// As of one file, with the name of the first one.
  [[nodiscard]] FileContents const& contents() const noexcept;
  [[nodiscard]] Variable const& variable(std::string_view name) const { return contents().variable(name); }
  [[nodiscard]] HorizontalAxes horizontal_axes(std::string_view name) const;
  [[nodiscard]] std::vector<std::filesystem::path> const& files() const noexcept;
  /// The dimension that is joined; empty for one file without a dimension to join along.
  [[nodiscard]] std::string const& dimension() const noexcept;
  /// File `i` holds the cells from `file_ends()[i]` to `file_ends()[i + 1]` along the joined dimension.
  [[nodiscard]] std::vector<Index> const& file_ends() const noexcept;
  /// Which filters its files may be read with.
  [[nodiscard]] FilterPlugins plugins() const noexcept;

  /// As the calls of `FieldFile`. Cost: those of each file that any rank needs cells of, one after the other; opening a
  /// file that is not among the last `most_open`; one all-reduce
  [[nodiscard]] std::vector<double> coordinate(std::string_view dimension) const;
  void read(std::string_view name, Box const& box, std::span<float> values) const;
  void read(std::string_view name, Box const& box, std::span<double> values) const;
  void read(std::string_view name, FileSelection const& selection, FieldView const& field) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule
