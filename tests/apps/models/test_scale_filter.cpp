// SPDX-License-Identifier: BSD-3-Clause
// The filter of waves of two cells.
#include <graticule/partition/cuts.hpp>

#include "fields_on.hpp"
#include "filters.hpp"
#include "globe.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace graticule::models {
namespace test_scale_filter {

constexpr Index num_rows = 12;
constexpr Index num_columns = 24;
using std::numbers::pi;

Grid globe() { return test::globe(num_rows, num_columns); }

/// [1, 2, rows, columns] of a box: value(channel, row, column).
template <class Value>
torch::Tensor fields_on(Box const& box, Value const& value) {
  return test::fields_on(box, 2, value);
}

double noise(Index c, Index j, Index i) { return std::sin(double(1 + c) + double(j * j) + 0.7 * double(i * i)); }

/// Layouts by rows, by columns, and with a rank that has no rows.
std::vector<Layout> layouts_of(int num_ranks) {
  std::vector<Layout> result{Layout(ProcessGrid{num_ranks, 1}, {num_rows, num_columns}),
                             Layout(ProcessGrid{1, num_ranks}, {num_rows, num_columns})};
  if (num_ranks == 1) return result;
  std::vector<Index> rows(std::size_t(num_ranks), 0);
  rows[0] = 5;
  rows[1] = num_rows - 5;
  result.push_back(Layout(ProcessGrid{num_ranks, 1}, {Cuts(rows), balanced_cuts(num_columns, 1)}));
  return result;
}

TEST(ScaleFilter, multiplies_waves_as_it_says) {
  auto const comm = Comm::world();
  auto const grid = globe();
  for (std::int64_t const order : {2, 4, 8})
    for (Index const cells : {2, 3, 4, 8, 24})
      for (Layout const& layout : layouts_of(comm.num_ranks())) {
        nn::Domain const domain(comm, *layout.grid(), grid.boundary);
        ScaleFilter filter(order, {}, domain);
        // Waves along rows, the same in all rows: beyond a pole half a circle on, which is a sign where their number is
        // odd.
        torch::Tensor const waves = fields_on(layout.owned(comm.rank()), [&](Index c, Index, Index i) {
          return std::cos(2 * pi * double(i) / double(cells) + double(c));
        });
        double const kept = 1 - std::pow(std::sin(pi / double(cells)), double(order));
        bool const crosses_as_it_is = num_columns / cells % 2 == 0;

        torch::Tensor const rest = filter(waves) - kept * waves;

        Box const box = layout.owned(comm.rank());
        for (Index j = box.lo(0); j < box.hi(0); ++j) {
          bool const is_near_pole = j < order / 2 || j >= num_rows - order / 2;
          if (is_near_pole && !crosses_as_it_is) continue;
          EXPECT_LT(rest.select(2, j - box.lo(0)).abs().sum().item<double>(), 1e-12)
              << order << " " << cells << " " << j;
        }
      }
}

TEST(ScaleFilter, removes_waves_of_two_rows_across_the_poles) {
  auto const comm = Comm::world();
  auto const grid = globe();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, {num_rows, num_columns});
  nn::Domain const domain(comm, *layout.grid(), grid.boundary);
  // The second channel is of a vector: alternating rows continue beyond a pole with the other sign.
  ScaleFilter filter(4, {1}, domain);
  Box const box = layout.owned(comm.rank());
  torch::Tensor const rows = fields_on(box, [](Index, Index j, Index) { return j % 2 == 0 ? 1.0 : -1.0; });
  torch::Tensor const constant = fields_on(box, [](Index, Index, Index) { return 3.0; });

  torch::Tensor const filtered = filter(rows);

  EXPECT_LT(filtered.select(1, 1).abs().sum().item<double>(), 1e-12);
  for (Index j = std::max<Index>(box.lo(0), 2); j < std::min<Index>(box.hi(0), num_rows - 2); ++j)
    EXPECT_LT(filtered.select(2, j - box.lo(0)).abs().sum().item<double>(), 1e-12);
  EXPECT_LT((filter(constant) - constant).select(1, 0).abs().sum().item<double>(), 1e-12);
}

TEST(ScaleFilter, has_the_same_bits_on_all_layouts) {
  auto const comm = Comm::world();
  auto const grid = globe();
  Layout const alone(ProcessGrid{1, 1}, {num_rows, num_columns});
  Comm const self = comm.split(comm.rank(), 0);
  nn::Domain const whole_domain(self, *alone.grid(), grid.boundary);
  torch::Tensor const whole = ScaleFilter(6, {1}, whole_domain)(fields_on(alone.owned(0), noise));
  for (Layout const& layout : layouts_of(comm.num_ranks())) {
    nn::Domain const domain(comm, *layout.grid(), grid.boundary);
    Box const box = layout.owned(comm.rank());

    torch::Tensor const part = ScaleFilter(6, {1}, domain)(fields_on(box, noise));

    EXPECT_TRUE(torch::equal(part, test::part_of(whole, box)));
  }
}

}  // namespace test_scale_filter
}  // namespace graticule::models
