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
#include <span>
#include <string_view>
#include <vector>

namespace graticule {

namespace detail {
struct FileOfSeries;
}

/// Reads of cells without filters: independent on each rank, or collective over all ranks by MPI-IO.
///
/// Collective reads of MPICH 4.0.2 on a local disk are 6 to 20 times slower for long runs, because a rank reads
/// everything between the first and the last run of its part, and 11 to 27 times for short runs (60 x 60 cells through
/// time). `collective` is for parallel file systems on which many ranks read short runs between those of each other.
enum class ReadCalls : std::uint8_t { collective, independent };

/// Options of `FieldFile`.
struct FieldFileOptions {
  /// Maximum bytes that one rank reads in one call: larger boxes are read in several rounds.
  Index piece_bytes = Index(256) << 20;
  FilterPlugins plugins = FilterPlugins::from_path;
  ReadCalls calls = ReadCalls::independent;
  /// Threads that decode compressed chunks. 0: the number in GRATICULE_READ_THREADS, or one where that is not set.
  /// Each holds one chunk, packed and decoded, besides `piece_bytes`.
  int threads = 0;
};

/// A netCDF-4 or HDF5 file, or a Zarr store, open for reading by all ranks of a communicator.
///
/// Rank 0 lists and checks the file and sends the list to the others, so every broken file is one error, the same on
/// all ranks. A file is a layout with one owner: each rank states the box that it needs.
///
/// Values follow the CF conventions: `packed * scale_factor + add_offset`, computed in double and rounded once to the
/// caller's type; cells equal to `_FillValue` or `missing_value`, compared before unpacking, become NaN. By the netCDF
/// conventions so do cells outside of `valid_min`, `valid_max` or `valid_range`, and, in variables without `_FillValue`
/// that hold floating-point numbers or packed integers of more than one byte, cells that are netCDF's default fill
/// value of the stored type (9.97e36, -32767, ...). Integers that are not packed keep all values: they may be codes.
/// Chunks, filters and byte order do not change the bits of the result. Where several variables share an unlimited
/// dimension and one is shorter, the cells beyond its end are missing, as in netCDF. Rows are in the order of the file:
/// see `coordinate`.
///
/// Example: 3 ranks read `z(month=2, level=3, latitude=241, longitude=480)`, rank 1 the box [0, 2) x [0, 3) x [81, 161)
/// x [0, 480): it gets 2 * 3 * 80 * 480 values, the last axis fastest.
///
/// A Zarr store (docs/zarr.md) is a folder, or a zip file with the ending `.zip`, of version 2 or 3 of the format. Each
/// rank reads the chunks that its box meets, and of shards the inner chunks.
class FieldFile {
 public:
  /// Collective. Where ranks have copies of the file, on several nodes or at several places, their sizes and samples of
  /// their bytes are compared. Variables written by a newer HDF5 in a form that this one cannot read are listed
  /// with a `refusal`. @throws `NoSuchFile`, `UnreadableFile`, `BrokenFile`, `UnsupportedFile` (input) when not even
  /// the list can be read, on all ranks alike; `BadInput` (input) for different copies
  FieldFile(Comm const& comm, std::filesystem::path const& path, FieldFileOptions const& options = {});
  FieldFile(FieldFile&&) noexcept;
  FieldFile& operator=(FieldFile&&) noexcept;
  /// Closes the file: collective. While an exception unwinds one rank alone, the file is closed at the end of MPI
  /// instead.
  ~FieldFile();

  [[nodiscard]] FileContents const& contents() const noexcept;
  /// @throws `MissingVariable` (input)
  [[nodiscard]] Variable const& variable(std::string_view name) const { return contents().variable(name); }
  /// Latitude and longitude axes of a variable. @throws as `FileContents::horizontal_axes` and `variable`
  [[nodiscard]] HorizontalAxes horizontal_axes(std::string_view name) const;
  /// All values of the coordinate variable of a dimension (`FileContents::coordinate`), on every rank, NaN where
  /// missing. Latitudes and longitudes in radians are converted to degrees. Collective.
  /// @throws `MissingVariable` (input) when the dimension has none, `BadCoordinates` (input) in units of other kinds
  [[nodiscard]] std::vector<double> coordinate(std::string_view dimension) const;

  /// Reads the cells of `box` of a variable into `values`, in row-major order. Collective; each rank passes its own
  /// box, which may be empty. Blocks until this rank's values are read.
  /// @pre `name` is the same on all ranks
  /// @pre `box` lies in the variable, `values` holds one element per cell (`OutOfRange`, `ShapeMismatch`)
  /// @throws `MissingVariable`, `UnreadableVariable`, `BrokenFile` (input), on all ranks when it happens on one;
  /// `UnreadableVariable` (input) for a virtual dataset unless all
  /// its sources existed when the file was opened, in its folder or below, and provide all its cells
  /// Cost: two small all-reduces, one read per `piece_bytes` (a collective one with `ReadCalls::collective`); a staging
  /// buffer of up to `piece_bytes` when the stored type differs from the type in memory.
  void read(std::string_view name, Box const& box, std::span<float> values) const;
  void read(std::string_view name, Box const& box, std::span<double> values) const;

  /// Reads selected cells of a variable directly into a field of any strides and any real type: sub-sampled, reversed,
  /// with permuted axes, inside a halo. Collective and blocking as above; each rank has its own selection and its own
  /// field, of its own type. Elements outside the selection are not written. Integer elements need values that they can
  /// represent exactly (`Conversion`, on all ranks).
  /// @throws `BadSelection`, `OutOfRange`, `ShapeMismatch`, `WrongType` (complex), `Unsupported`
  /// Cost: as above; stored values and elements of one piece together take at most `piece_bytes`; no staging where the
  /// field is dense, in the order of the file and of the stored type
  void read(std::string_view name, FileSelection const& selection, FieldView const& field) const;

  /// Reads the cells of `box` in their stored type, bit for bit, in this machine's byte order: no value is unpacked or
  /// missing; cells beyond the variable's end are its `_FillValue`, or netCDF's default. For copies of a file.
  /// Text can be read as well: characters (netCDF's `char`), and strings, padded with zeros to the longest.
  /// Collective and blocking as `read`.
  /// @pre `bytes` holds `variable(name).value_bytes` per cell of `box`
  /// Cost: as `read`, without a staging buffer
  void read_stored(std::string_view name, Box const& box, std::span<std::byte> bytes) const;

  /// Number of chunks that this process has inflated, unshuffled or checked so far, in all files. Local.
  [[nodiscard]] static Index num_unpacked_chunks() noexcept;

 private:
  friend struct detail::FileOfSeries;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule
