// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace graticule::program {

/// Weights of the cost of a plan, in bytes received.
struct PlanCosts {
  double message = 1024;  ///< of a message
  double work = 0.25;     ///< of a byte that an operator reads or writes, and of four operations
  double replicated = 4;  ///< extra cost factor of work repeated on every rank
  /// A convolution computes on a rank's own rows while the halo travels if ranks have, on average, so many rows
  /// per row of its window's reach. With fewer, the rows travel first.
  double overlap = 8;
};

}  // namespace graticule::program
