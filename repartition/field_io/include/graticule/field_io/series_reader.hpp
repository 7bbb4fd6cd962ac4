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

/// Cells of a variable as they lie in its files, which become numbers when asked. For caches: packed values of 16 bits
/// take a quarter of the memory of the numbers in f64.
class StoredCells {
 public:
  [[nodiscard]] Index num_cells() const { return box_.num_cells(); }
  /// That the cells take in memory.
  [[nodiscard]] Index num_bytes() const noexcept;
  /// The same bits as `FieldSeries::read` gives, in row-major order of the box; NaN where missing. From any thread.
  /// @pre one value for each cell (`WrongSize`)
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

/// Reads boxes of a series' variables by this process alone: for a thread that reads while the others compute.
///
/// Makes no MPI call, and keeps other threads out of HDF5 while it is in there, as everything here does: other threads may
/// read and write other files meanwhile. One thread at a time may use one reader; the series may be gone.
/// Cost: lists and opens each file once on each rank, and again when `most_open` others were used since
class SeriesReader {
 public:
  /// Opens nothing yet. Not collective.
  explicit SeriesReader(FieldSeries const& series, int most_open = 16);
  SeriesReader(SeriesReader&&) noexcept;
  SeriesReader& operator=(SeriesReader&&) noexcept;
  ~SeriesReader();

  /// Bytes of one cell of a variable in its file. @throws `MissingVariable` (input)
  [[nodiscard]] Index value_bytes(std::string_view name) const;

  /// Blocks until the cells are there. @pre `box` lies in the variable (`BoxOutsideVariable`)
  /// @throws on this rank alone: `MissingVariable`, `UnreadableVariable`, `BrokenFile` (input), which names file and
  /// variable; also when a file is gone or has changed since the series was opened
  [[nodiscard]] StoredCells read(std::string_view name, Box const& box);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule
