// SPDX-License-Identifier: BSD-3-Clause
#include "case.hpp"

#include <graticule/app/numbers.hpp>

namespace graticule::bench {

namespace {

ProcessGrid partition_of(Options const& options, Comm const& comm) {
  return options.partition == "auto" ? bands(comm) : app::parse_partition(options.partition, comm.num_ranks());
}

std::vector<Width> widths_of(Options const& options) {
  if (options.widths.empty()) return {{options.width, options.width}, {options.width, options.width}};
  auto const both = app::count_from(options.widths);
  auto const widths = both ? Indices{*both, *both} : app::two_counts_from(options.widths).value_or(Indices{0, 0});
  if (widths[0] + widths[1] == 0)
    throw Error(Fault::usage, "BadOption",
                "--widths " + options.widths + " is neither a number of cells nor ROWSxCOLUMNS such as 1x2");
  return {{widths[0], widths[0]}, {widths[1], widths[1]}};
}

}  // namespace

void set_grid(Options& options) {
  auto const grid = app::two_counts_from(options.grid);
  if (!grid || (*grid)[0] < 2 || (*grid)[1] < 2)
    throw Error(Fault::usage, "BadOption", "--grid " + options.grid + " is not LATITUDESxLONGITUDES such as 721x1440");
  options.num_rows = (*grid)[0];
  options.num_columns = (*grid)[1];
}

std::string Case::text() const {
  return std::to_string(channels) + " x " + std::to_string(extents[0]) + " x " + std::to_string(extents[1]) + " " +
         to_string(dtype) + ", " + to_string(grid) + " ranks";
}

Case case_of(Options const& options, Comm const& comm, Index usual_channels, DType usual_dtype) {
  Case result;
  result.extents = {options.num_rows, options.num_columns};
  result.channels = options.num_channels ? options.num_channels : usual_channels;
  result.dtype = options.dtype.empty() ? usual_dtype : options.dtype == "f64" ? DType::f64 : DType::f32;
  result.grid = partition_of(options, comm);
  result.widths = widths_of(options);
  return result;
}

Transposition transposition_of(Options const& options, Case const& c) {
  Indices const extents{options.num_rows, options.num_columns, options.num_levels};
  auto const& ranks = c.grid.extents();
  return {extents, Layout(ProcessGrid{ranks[0], ranks[1], 1}, extents),
          Layout(ProcessGrid{1, ranks[0], ranks[1]}, extents)};
}

}  // namespace graticule::bench
