// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/numbers.hpp>
#include <graticule/app/partition.hpp>

#include <numeric>
#include <string_view>

namespace graticule::app {
namespace {

ProcessGrid choose_grid(std::string const& partition, int num_ranks, Index num_rows) {
  if (partition == "auto") {
    int columns = 1;
    while (columns < num_ranks && (num_ranks % columns != 0 || num_rows / (num_ranks / columns) < min_band_rows))
      ++columns;
    if (num_rows / (num_ranks / columns) < min_band_rows) columns = 1;
    return ProcessGrid{num_ranks / columns, columns};
  }
  return parse_partition(partition, num_ranks);
}

Cuts listed_cuts(std::string_view list, int num_parts, Index extent, char const* what) {
  std::vector<Index> sizes;
  while (true) {
    std::size_t const comma = list.find(',');
    auto const size = count_from(list.substr(0, comma));
    if (!size)
      throw Error(Fault::usage, "BadCuts",
                  "--cuts: '" + std::string(list.substr(0, comma)) + "' is not a number of " + what +
                      "; give 'balanced', 'area' or a list such as 61,60,60,60");
    sizes.push_back(*size);
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  if (int(sizes.size()) != num_parts)
    throw Error(Fault::usage, "BadCuts",
                "--cuts has " + std::to_string(sizes.size()) + " parts of the " + what + ", the partition has " +
                    std::to_string(num_parts));
  Index const sum = std::accumulate(sizes.begin(), sizes.end(), Index(0));
  if (sum != extent)
    throw Error(Fault::usage, "BadCuts",
                "--cuts sums to " + std::to_string(sum) + " " + what + ", the grid has " + std::to_string(extent));
  return Cuts(sizes);
}

}  // namespace

Layout choose_layout(PartitionChoice const& choice, int num_ranks, std::span<double const> row_weights,
                     Index num_columns) {
  auto const num_rows = Index(row_weights.size());
  ProcessGrid const grid = choose_grid(choice.partition, num_ranks, num_rows);
  Cuts const even_columns = balanced_cuts(num_columns, grid.extent(1));
  if (choice.cuts == "balanced") return Layout(grid, {balanced_cuts(num_rows, grid.extent(0)), even_columns});
  if (choice.cuts == "area") return Layout(grid, {weighted_cuts(row_weights, grid.extent(0)), even_columns});

  std::string_view const list = choice.cuts;
  std::size_t const x = list.find('x');
  Cuts const rows = listed_cuts(list.substr(0, x), grid.extent(0), num_rows, "rows");
  if (x == std::string_view::npos) return Layout(grid, {rows, even_columns});
  return Layout(grid, {rows, listed_cuts(list.substr(x + 1), grid.extent(1), num_columns, "columns")});
}

}  // namespace graticule::app
