// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/series.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace graticule {

namespace detail {
struct Unpacking;
}

/// Cells of a variable in their stored type, converted to numbers on request. For caches: packed 16-bit values take a
/// quarter of the memory of f64 numbers.
class StoredCells {
 public:
  [[nodiscard]] Index num_cells() const { return box_.num_cells(); }
  /// Memory of the cells.
  [[nodiscard]] Index num_bytes() const noexcept;
  /// The same bits as from `FieldSeries::read`, in row-major order of the box; NaN where missing. May be called from
  /// any thread.
  /// @pre one value per cell (`ShapeMismatch`)
  void unpack(std::span<double> values) const;

 private:
  friend class SeriesReader;
  struct Part {
    Box box;
    std::shared_ptr<detail::Unpacking const> unpacking;
    std::vector<std::byte> bytes;
  };
  Box box_ = Box({0}, {0});
  std::vector<Part> parts_;
};

/// Reads boxes of a series' variables on this process alone: for a thread that reads while the others compute.
///
/// Makes no MPI call. Like all functions of this library it locks HDF5 during its calls, so other threads may read and
/// write other files at the same time. A reader may be used by one thread at a time; it does not need the series to
/// exist.
/// Cost: opens each file once on each rank, and again when `most_open` others were used since; lists the first one, and
/// others that have changed since the series was opened
class SeriesReader {
 public:
  /// Opens nothing yet. Not collective.
  explicit SeriesReader(FieldSeries const& series, int most_open = 16);
  SeriesReader(SeriesReader&&) noexcept;
  SeriesReader& operator=(SeriesReader&&) noexcept;
  ~SeriesReader();

  /// Bytes of one cell of a variable in its file. @throws `MissingVariable` (input)
  [[nodiscard]] Index value_bytes(std::string_view name) const;

  /// Blocks until the cells are read. @pre `box` lies in the variable (`OutOfRange`)
  /// @throws on this rank alone: `MissingVariable`, `UnreadableVariable`, `BrokenFile` (input), with file and variable;
  /// also when a file was removed or has changed since the series was opened
  [[nodiscard]] StoredCells read(std::string_view name, Box const& box);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule
