// SPDX-License-Identifier: BSD-3-Clause
// The checked command line of a measurement, common to halo and repartition.
#pragma once

#include <graticule/partition/layout.hpp>
#include <graticule/repartition/field_view.hpp>

#include "options.hpp"

#include <string>
#include <vector>

namespace graticule::bench {

/// Sets rows and columns from `--grid`. @throws `BadOption` (usage)
void set_grid(Options& options);

struct Case {
  Indices extents;  ///< latitudes and longitudes
  Index channels = 1;
  DType dtype = DType::f32;
  ProcessGrid grid{1, 1};
  std::vector<Width> widths;  ///< of the halo, per axis

  [[nodiscard]] Index cell_bytes() const { return channels * size_of(dtype); }
  /// `64 x 721 x 1440 f32, 4x1 ranks`
  [[nodiscard]] std::string text() const;
};

/// @throws `BadOption` (usage)
[[nodiscard]] Case case_of(Options const& options, Comm const& comm, Index usual_channels, DType usual_dtype);

/// Layouts of three axes between which the axes that are cut move on by one, as in the transposes of a
/// three-dimensional Fourier transform.
struct Transposition {
  Indices extents;
  Layout first;
  Layout second;
};
[[nodiscard]] Transposition transposition_of(Options const& options, Case const& c);

}  // namespace graticule::bench
