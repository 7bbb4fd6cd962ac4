// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/field_io/selection.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/repartition/update.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graticule {

/// Whether the bytes of a chunk's values are sorted by significance before deflation, which makes floating-point fields
/// smaller.
enum class Shuffle : std::uint8_t { with_deflate, always, never };

/// A dimension that is `unlimited` can be extended later, by Graticule or by netCDF's tools.
enum class DimensionKind : std::uint8_t { fixed, unlimited };

/// A variable to write.
struct VariableSpec {
  std::string name;
  std::vector<std::string> dimensions = {};  ///< one per axis, added before; none: a single value
  ValueType type = ValueType::f32;           ///< any but `other`; `f16` in Zarr stores only, which netCDF lacks
  Index text_bytes = 1;                      ///< of one value of type `text`; netCDF's `char` has 1
  Indices chunk = {};                        ///< no axes: contiguous, or a record per chunk if a dimension is unlimited
  Indices shard = {};                        ///< of a Zarr store: cells of one file, whole chunks; no axes: a chunk
  /// 1 to 9; needs `chunk` in a netCDF-4 file. In a Zarr store in place of `FieldWriterOptions::codec`: `blosc-zlib` of
  /// this level, or `gzip` without shuffle and where there is no blosc.
  int deflate = 0;
  Shuffle shuffle = Shuffle::with_deflate;  ///< needs `chunk`; of a Zarr store only with `deflate`
  std::optional<Packing> packing = {};      ///< written as `scale_factor` and `add_offset`; without `missing`
  std::optional<double> fill = {};          ///< stored value of missing cells (NaN in memory), written as `_FillValue`
  /// May contain `scale_factor`, `add_offset` and `_FillValue` themselves, instead of `packing` and `fill`.
  std::vector<Attribute> attributes = {};

  /// The definition of a variable for a copy: type, dimensions, chunks, deflate, shuffle and all attributes. With
  /// values from `read_stored` to `write_stored`, the copy is bitwise identical. Other filters are left out. A variable
  /// with fewer records than its unlimited dimension gets netCDF's default `_FillValue` unless it has one, so that its
  /// missing cells stay missing.
  /// @throws `UnreadableVariable` (input) when `read_stored` cannot read it or the writer does not support its type
  [[nodiscard]] static VariableSpec of(Variable const& variable);
};

/// `Conventions` of a file that is given none: CF's, or none, as for the copy of a file that has none.
enum class Conventions : std::uint8_t { cf_if_absent, as_given };

/// Options of `FieldWriter`.
struct FieldWriterOptions {
  /// Maximum bytes that one rank passes to one MPI call: larger boxes are written in several rounds.
  Index piece_bytes = Index(256) << 20;
  /// Ranks of each node that write; the others send them their cells in pieces, so that no rank holds more than
  /// `piece_bytes` of them. 0: all ranks write. Few writers are better on file systems where many ranks of a node
  /// compete for one link; with deflation several writers are faster, because each deflates its own chunks.
  int writers_per_node = 0;
  Conventions conventions = Conventions::cf_if_absent;  ///< of a new file
  /// Of a Zarr store: `none`, `gzip:5`, `zstd:3`, `blosc-zstd:3`, `blosc-lz4:5`, ..., the level left out or not. Empty:
  /// the first of `blosc-zstd:3`, `zstd:3` and `gzip:5` that the program was built with. Of variables without
  /// `deflate`.
  std::string codec = {};
};

/// Target of appended records.
///
/// `copy`: to a copy in the same folder, which takes the file's name on `commit`. If the program is killed at any
/// moment, the old file is unchanged. Costs a copy of the file, which is immediate on file systems that share blocks
/// (btrfs, xfs).
/// `in_place`: to the file itself. Costs the new records and a copy of what HDF5 may rewrite: of all but the cells of
/// whole chunks, about 50 bytes per chunk (of everything where `graticule-read-structure` is missing). That copy is
/// the file `.NAME.undo` beside it, which exists from `append` to `commit`. If the program is killed in between, the
/// next `append`, or the next Graticule program that reads the file and may write to it, puts the old bytes back: the
/// file then has exactly the records that were committed. Until then other programs may find it unreadable. A second
/// `append` at the same time is an `OutputError`.
///
/// Zarr stores of version 3 are always appended to in place, without a copy: files of chunks are replaced one by one,
/// the list of the metadata is replaced last and at once, and tells how many records there are.
enum class AppendTo : std::uint8_t { copy, in_place };

/// Records along a dimension of a file that are complete: as many as its coordinate has, which is written last, or,
/// without a coordinate, as the dimension has. `FieldWriter::append` goes on after them. Local.
/// Example: a program of another origin was killed after `u(time=6, ...)` and before `time(time=5)`: 5.
/// @throws `MissingVariable` for a dimension that the file does not have
[[nodiscard]] Index num_complete_records(FileContents const& contents, std::string_view dimension);

/// Writes a netCDF-4 file or a Zarr store from all ranks of a communicator; ncdump, netCDF and xarray open it with its
/// coordinates.
///
/// A name that ends in `.zarr` makes a store of version 3 of the format, in a folder. Its variables have chunks (where
/// none are given, one cell along unlimited dimensions and at most 4 MiB), and each is written by one rank: cells
/// of chunks that several ranks have are sent to the one that has most of them. A chunk that is written in several
/// calls is read and written again: write whole ones. A full disk is an `OutputError` of `write` or `commit` on all
/// ranks. Everything below holds for both.
///
/// The file has a temporary name in the same folder until `commit` gives it its final name. Without `commit` (an
/// exception, an early return) the temporary file is removed and an older file of that name remains. Temporary files of
/// killed programs for that name are removed. A symbolic link is kept: its target is replaced; that of another user in
/// a folder that others may write to is an `OutputError`. A full disk, a quota or a limit on file size is an
/// `OutputError` of `add_variable` or `extend` on all ranks, before cells are written, and nothing is changed. Only
/// space for compressed cells cannot be reserved: when the disk fills up during a write, `write` throws on the rank
/// that detects it, and the others wait for it inside HDF5 until it ends the program. Without `deflate`, the bytes of
/// the file depend only on the written data, not on ranks, boxes or the time of day.
///
/// Example: 3 ranks write `u(latitude, longitude)`:
///     FieldWriter writer(comm, "out.nc");
///     writer.add_coordinate("latitude", latitudes, ValueType::f64, {Attribute::of_text("units", "degrees_north")});
///     writer.add_coordinate("longitude", longitudes, ValueType::f64, {Attribute::of_text("units", "degrees_east")});
///     writer.add_variable({.name = "u", .dimensions = {"latitude", "longitude"}});
///     writer.write("u", own_box, own_values);
///     writer.commit();
/// All calls are collective, with the same arguments on all ranks except the boxes and values of `write`.
class FieldWriter {
 public:
  /// `attributes` are those of the file; `Conventions` is added if absent, unless the options say otherwise.
  /// @throws `OutputError` when the folder is missing or not writable, `BadOption`
  FieldWriter(Comm const& comm, std::filesystem::path const& path, std::vector<Attribute> const& attributes = {},
              FieldWriterOptions const& options = {});
  /// Opens a netCDF-4 file to append records: `extend` its unlimited dimension, write every variable along it, the
  /// coordinate last, and `commit`. Existing cells cannot be written.
  /// Example: one more day of `u(time, latitude, longitude)`, which has 30 times:
  ///     auto writer = FieldWriter::append(comm, "out.nc");
  ///     writer.extend("time", 1);
  ///     writer.write("u", Box({30, rows.lo, 0}, {31, rows.hi, 480}), own_values);
  ///     writer.write("time", Box({30}, {comm.rank() == 0 ? 31 : 30}), own_times);
  ///     writer.commit();
  /// @throws as `FieldFile`, `OutputError`
  [[nodiscard]] static FieldWriter append(Comm const& comm, std::filesystem::path const& path,
                                          AppendTo to = AppendTo::copy, FieldWriterOptions const& options = {});
  FieldWriter(FieldWriter&&) noexcept;
  FieldWriter& operator=(FieldWriter&&) = delete;
  /// Removes the temporary file unless it was committed.
  ~FieldWriter();

  /// A dimension; its coordinate values, if any, are a variable of the same name, added later. The extent of an
  /// unlimited dimension is its current length. @throws `BadName`, `BadOption`
  void add_dimension(std::string_view name, Index extent, DimensionKind kind = DimensionKind::fixed);
  /// A dimension and the variable of its coordinate values, written at once. @throws `BadName`
  void add_coordinate(std::string_view name, std::span<double const> values, ValueType type = ValueType::f64,
                      std::vector<Attribute> const& attributes = {});
  /// A variable is the coordinate of a dimension when it has its name and starts with it, as `time(time)` or netCDF's
  /// `char station(station, length)`. Variables keep the order in which they are added.
  /// @throws `BadName`, `MissingVariable`, `BadOption`, `WrongType`, `OutputError` when the disk is full
  void add_variable(VariableSpec const& spec);

  /// Makes an unlimited dimension, and all variables along it, longer by `count` cells, which must then be written.
  /// @throws `MissingVariable`, `BadOption` for a count below 1 or a dimension that is not unlimited,
  /// `UnreadableVariable` (input) when a variable along it cannot be written, `OutputError` when the disk is full
  void extend(std::string_view dimension, Index count);

  /// Writes the cells of `box`, the last axis fastest. Each rank passes its own box, which may be empty; every cell is
  /// written once, by one rank. Blocks until the values are passed to HDF5.
  /// @pre `box` lies in the variable, `values` holds one element per cell (`OutOfRange`, `ShapeMismatch`)
  /// @throws `Conversion` for a value that the stored type cannot represent, on all ranks; `MissingVariable`;
  /// `OutOfRange` for cells that existed before `append`
  void write(std::string_view name, Box const& box, std::span<float const> values);
  void write(std::string_view name, Box const& box, std::span<double const> values);
  /// Writes from a field of any strides and any real type, as `FieldFile::read` reads into one.
  /// @throws as there, and `Conversion`
  void write(std::string_view name, FileSelection const& selection, FieldView const& field);
  /// The same for values in their stored type, in this machine's byte order, without packing.
  /// @pre `bytes` holds one value of the variable's type for each cell of `box`
  void write_stored(std::string_view name, Box const& box, std::span<std::byte const> bytes);

  /// Closes the file, synchronises it to the disk, and gives it its name.
  /// @throws `WrongState` when fewer cells than a variable has were written; `OutputError`
  void commit();

 private:
  struct State;
  explicit FieldWriter(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace graticule
