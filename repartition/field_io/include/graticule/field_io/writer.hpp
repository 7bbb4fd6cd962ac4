// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/contents.hpp>
#include <graticule/field_io/selection.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>

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

/// `value = packed * scale + offset`
struct Packing {
  double scale = 1;
  double offset = 0;
};

/// Whether the bytes of a chunk's values are sorted by significance before they are deflated, which makes fields of
/// floating-point numbers smaller.
enum class Shuffle : std::uint8_t { with_deflate, always, never };

/// A dimension that is `unlimited` can be made longer later, by `graticule` or by netCDF's own tools.
enum class DimensionKind : std::uint8_t { fixed, unlimited };

/// A variable to be written.
struct VariableSpec {
  std::string name;
  std::vector<std::string> dimensions = {};  ///< one per axis, added before; none: a single value
  ValueType type = ValueType::f32;           ///< any but `f16` and `other`
  Index text_bytes = 1;                      ///< of one value of type `text`; netCDF's `char` has 1
  Indices chunk = {};                        ///< no axes: in one piece, or a record each where a dimension is unlimited
  int deflate = 0;                           ///< 1 to 9; needs `chunk`
  Shuffle shuffle = Shuffle::with_deflate;   ///< needs `chunk`
  std::optional<Packing> packing = {};       ///< written as `scale_factor` and `add_offset`
  std::optional<double> fill = {};           ///< stored value of missing cells (NaN in memory), written as `_FillValue`
  /// May hold `scale_factor`, `add_offset` and `_FillValue` themselves, in place of `packing` and `fill`.
  std::vector<Attribute> attributes = {};
};

/// What makes a variable of a file again: type, dimensions, chunks, deflate, shuffle and all attributes. With the values
/// from `read_stored` to `write_stored`, a copy is the same bit for bit. Filters of other kinds are left out. A variable
/// that ends early gets netCDF's default `_FillValue` unless it has one, so that its missing cells stay missing.
/// @throws `UnreadableVariable` (input) when `read_stored` cannot read it or the writer has no such type
[[nodiscard]] VariableSpec spec_of(Variable const& variable);

struct FieldWriterOptions {
  /// Most bytes that one rank moves in one call of MPI: larger boxes are written in several rounds.
  Index piece_bytes = Index(256) << 20;
  /// Ranks of each node that write; the others send them what they have, in pieces, so that no rank holds more than
  /// `piece_bytes` of it. 0: all ranks write. Few writers please file systems where many ranks of a node compete for
  /// one link; a writer is slower than several where values are deflated, because each deflates its own chunks.
  int writers_per_node = 0;
};

/// Where records are appended to.
///
/// `copy`: to a copy in the same folder, which takes the file's name on `commit`. A program killed at any moment leaves
/// the old file as it was. Costs a copy of the file, which file systems that share blocks make at once (btrfs, xfs).
/// `in_place`: to the file itself. Costs the new records only. Until `commit` or until its coordinate is written, the
/// old file is not changed but made longer; then HDF5 rewrites its metadata within some milliseconds, and a program
/// killed in there may leave a file that nothing reads. The coordinate is written after all else is on the disk, so a
/// record without coordinate is not complete; the next `append` writes it anew.
/// Measured with 30 and 40 programs killed at random moments: copies left every file whole; in place every file could be
/// read, 20 of them with a last record without coordinate.
enum class AppendTo : std::uint8_t { copy, in_place };

/// Writes a netCDF-4 file from all ranks of a communicator; ncdump, netCDF and xarray open it with its coordinates.
///
/// Everything goes to a temporary name in the same folder until `commit` gives the file its name; without `commit`
/// (an exception, an early return) the temporary file is removed and an older file of that name stays. What killed
/// programs of this host have left for that name is removed. A symbolic link stays: the file that it leads to is replaced.
/// A full disk, a quota or a limit of the length of files is an `OutputError` of `add_variable` or `extend` on all ranks,
/// before cells are written, and nothing has changed. Only compressed cells have no room beforehand: when the disk fills up
/// under way, `write` throws on the rank that meets it, and the others wait for that one inside of HDF5 until it ends the
/// program.
/// Without `deflate`, the bytes of the file depend on what is written only, not on ranks, boxes or the time of day.
///
/// Example: 3 ranks write `u(latitude, longitude)`:
///     FieldWriter writer(comm, "out.nc");
///     writer.add_coordinate("latitude", latitudes, ValueType::f64, {Attribute::of_text("units", "degrees_north")});
///     writer.add_coordinate("longitude", longitudes, ValueType::f64, {Attribute::of_text("units", "degrees_east")});
///     writer.add_variable({.name = "u", .dimensions = {"latitude", "longitude"}});
///     writer.write("u", own_box, own_values);
///     writer.commit();
/// All calls are collective, with the same arguments on all ranks but for the boxes and values of `write`.
class FieldWriter {
 public:
  /// @param attributes of the file; `Conventions` is added when it is not among them
  /// @throws `OutputError` when the folder is missing or not writable, `BadWriters`
  FieldWriter(Comm const& comm, std::filesystem::path const& path, std::vector<Attribute> const& attributes = {},
              FieldWriterOptions const& options = {});
  /// Opens a netCDF-4 file to append records: `extend` its unlimited dimension, write every variable along it, the
  /// coordinate last, and `commit`. Cells that were there before cannot be written.
  /// Example: a day more of `u(time, latitude, longitude)`, of 30 times up to now:
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
  /// Removes what was not committed.
  ~FieldWriter();

  /// A dimension; its coordinate values, if any, are a variable of the same name, added later. An extent of an unlimited
  /// dimension is how long it is now. @throws `NameTaken`, `BadExtent`
  void add_dimension(std::string_view name, Index extent, DimensionKind kind = DimensionKind::fixed);
  /// A dimension and the variable of its coordinate values, written at once. @throws `NameTaken`
  void add_coordinate(std::string_view name, std::span<double const> values, ValueType type = ValueType::f64,
                      std::vector<Attribute> const& attributes = {});
  /// A variable is the coordinate of a dimension when it has its name and starts with it, as `time(time)` or netCDF's
  /// `char station(station, length)`. Variables keep the order in which they are added.
  /// @throws `NameTaken`, `MissingDimension`, `BadChunk`, `BadType`, `BadPacking`, `OutputError` when the disk is full
  void add_variable(VariableSpec const& spec);

  /// Makes an unlimited dimension, and all variables along it, longer by `count` cells, which are then to be written.
  /// @throws `MissingDimension`, `BadExtent` for a count below 1 or a dimension that is not unlimited,
  /// `UnreadableVariable` (input) when a variable along it cannot be written, `OutputError` when the disk is full
  void extend(std::string_view dimension, Index count);

  /// Writes the cells of `box`, the last axis fastest. Each rank names its own box, an empty one too; every cell is
  /// written once, by one rank. Blocks until the values are handed to HDF5.
  /// @pre `box` lies in the variable, `values` holds one element per cell (`BoxOutsideVariable`, `WrongSize`)
  /// @throws `PackedRange` for a value that the stored type does not hold, on all ranks; `MissingVariable`;
  /// `OldRecords` for cells that were there before `append`
  void write(std::string_view name, Box const& box, std::span<float const> values);
  void write(std::string_view name, Box const& box, std::span<double const> values);
  /// Writes from a field of any strides and any real type, as `FieldFile::read` reads into one.
  /// @throws as there, and `PackedRange`
  void write(std::string_view name, FileSelection const& selection, FieldView const& field);
  /// The same for values as they are stored, in this machine's byte order: nothing is packed.
  /// @pre `bytes` holds one value of the variable's type for each cell of `box`
  void write_stored(std::string_view name, Box const& box, std::span<std::byte const> bytes);

  /// Closes the file, makes sure that it is on the disk, and gives it its name.
  /// @throws `UnwrittenCells` when fewer cells than a variable has were written; `OutputError`
  void commit();

 private:
  struct State;
  explicit FieldWriter(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace graticule
