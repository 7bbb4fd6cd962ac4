// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "diagnostics.hpp"

#include <filesystem>
#include <string>

namespace graticule::swe {

/// The file of a run: h, u, v, vorticity and divergence at the centres of the cells, a record per output time.
///
/// A record is written once: a resumed run passes over those that the file has, which have the same bits.
class Series {
 public:
  /// Collective.
  /// @param description what makes the same file again
  /// @param num_needed records of the file that a resumed run goes on after; 0: a new file
  /// @throws `LayoutMismatch`, `StateMismatch` (input) for a file of another grid or type, or without these records
  Series(Solver const& solver, std::filesystem::path path, std::string const& description, bool f64, Index num_needed);

  /// Appends the state of a time; nothing where the file has that record already. Collective.
  void write(Index record, double hours, Diagnostics::Centred& centred, Cells& depth);

 private:
  Comm comm_;
  Box owned_;
  std::filesystem::path path_;
  Index num_records_ = 0;
};

}  // namespace graticule::swe
