// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/file.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule {

namespace detail {
struct KnownFile;
}

/// The files that match a shell pattern (`*`, `?`, `[...]`), sorted by name, with numbers compared by value: `run_2.nc`
/// comes before `run_10.nc`. A name without such characters matches itself, and so does that of a file which exists.
/// Rank 0 lists the files; collective.
/// @throws `NoSuchFile` (input) when nothing matches
[[nodiscard]] std::vector<std::filesystem::path> find_files(Comm const& comm, std::string const& pattern);

/// Options of `FieldSeries`.
struct FieldSeriesOptions {
  /// To join along. Empty: the unlimited one, else the one that counts time, else the first axis of the variable of
  /// most axes; it must be unlimited, have a coordinate, or be named as time, records or samples are, and not be
  /// horizontal.
  std::string dimension = {};
  int most_open = 4;  ///< files open at once
  FieldFileOptions file = {};
};

/// Several files of the same variables that follow each other in time, read as if they were one file.
///
/// Variables along the joined dimension have the total extent of all files; the others are those of the first file.
/// Variables that only later files have are left out; one that a later file lacks cannot be read (`refusal`).
/// Each file is unpacked by its own scale, offset and fill value; `contents` lists those of the first one. Where the
/// joined coordinate counts time from another date or in another unit, it and its bounds are read in the units of the
/// first file, as f64 where the type of the first file cannot hold them. Units may be spelled in several ways
/// (`same_units`), and other coordinates may differ by rounding: by a 10000th of their spacing.
/// Example: `era5_2000.nc` and `era5_2001.nc` hold `t(time=8784, ...)` and `t(time=8760, ...)`: the series holds
/// `t(time=17544, ...)`, and the box [8780, 8790) along time has 4 cells of the first file and 6 of the second.
class FieldSeries {
 public:
  /// Opens each file once and compares it with the first. Collective; rank 0 reads structures and coordinates, and
  /// sends those of up to 128 files at once.
  /// @throws as `FieldFile`; `BadInput` (input) when variables, their axes or units, or other coordinates differ;
  /// `BadInput` (input) when several files, such as maps z(latitude, longitude), have no dimension to be joined along;
  /// `BadInput` (input) when the joined coordinate is not monotonic over all files
  FieldSeries(Comm const& comm, std::vector<std::filesystem::path> files, FieldSeriesOptions const& options = {});
  FieldSeries(FieldSeries&&) noexcept;
  FieldSeries& operator=(FieldSeries&&) noexcept;
  ~FieldSeries();

  /// As for one file, with the name of the first file.
  [[nodiscard]] FileContents const& contents() const noexcept;
  [[nodiscard]] Variable const& variable(std::string_view name) const { return contents().variable(name); }
  [[nodiscard]] HorizontalAxes horizontal_axes(std::string_view name) const;
  [[nodiscard]] std::vector<std::filesystem::path> const& files() const noexcept;
  /// The joined dimension; empty for one file without a dimension to join along.
  [[nodiscard]] std::string const& dimension() const noexcept;
  /// File `i` holds the cells from `file_ends()[i]` to `file_ends()[i + 1]` along the joined dimension.
  [[nodiscard]] std::vector<Index> const& file_ends() const noexcept;
  /// Filters with which its files may be read.
  [[nodiscard]] FilterPlugins plugins() const noexcept;

  /// As the calls of `FieldFile`. Cost: that of each file from which any rank needs cells, one after the other; opening
  /// of files that are not among the last `most_open`; one all-reduce
  [[nodiscard]] std::vector<double> coordinate(std::string_view dimension) const;
  void read(std::string_view name, Box const& box, std::span<float> values) const;
  void read(std::string_view name, Box const& box, std::span<double> values) const;
  void read(std::string_view name, FileSelection const& selection, FieldView const& field) const;

 private:
  friend class SeriesReader;
  [[nodiscard]] std::vector<std::optional<detail::KnownFile>> const& known() const noexcept;
  [[nodiscard]] int threads() const noexcept;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule
