// SPDX-License-Identifier: BSD-3-Clause
// The filter of what networks predict beyond a latitude.
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/partition/cuts.hpp>

#include "fields_on.hpp"
#include "filters.hpp"
#include "globe.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace graticule::models {
namespace test_polar_filter {

constexpr Index num_rows = 18;
constexpr Index num_columns = 36;

Grid globe() { return test::globe(num_rows, num_columns); }

/// [2, rows, columns] of a box: waves of all lengths with amplitudes of order 1.
torch::Tensor waves_on(Box const& box) {
  return test::fields_on(box, 2,
                         [](Index c, Index j, Index i) {
                           return std::sin(double(1 + c) + double(j * j) + 0.7 * double(i * i)) + 0.1 * double(c);
                         })
      .squeeze(0);
}

std::vector<Layout> layouts(int num_ranks) {
  return {Layout(ProcessGrid{num_ranks, 1}, {num_rows, num_columns}),
          Layout(ProcessGrid{1, num_ranks}, {num_rows, num_columns})};
}

TEST(PolarFilter, factors_keep_the_waves_that_other_rows_resolve) {
  torch::Tensor const factors = polar_factors(globe(), 60);
  ASSERT_EQ(factors.size(0), num_rows);
  ASSERT_EQ(factors.size(1), num_columns / 2 + 1);
  // 85 degrees: 18 cos(85) / cos(60) = 3.14 waves; 4.7 have gone.
  EXPECT_EQ(factors[0][3].item<double>(), 1);
  EXPECT_NEAR(factors[0][4].item<double>(),
              0.5 * (1 + std::cos(std::numbers::pi * 2 * (4 - 36 * std::cos(85 * std::numbers::pi / 180)) /
                                  (36 * std::cos(85 * std::numbers::pi / 180)))),
              1e-12);
  EXPECT_EQ(factors[0][5].item<double>(), 0);
  EXPECT_EQ(factors[num_rows - 1][5].item<double>(), 0);
  // 55 degrees is not filtered.
  EXPECT_TRUE(factors.slice(0, 3, num_rows - 3).eq(1).all().item<bool>());
  EXPECT_FALSE(polar_factors(globe(), 0).defined());
  EXPECT_FALSE(polar_factors(globe(), 86).defined());
}

TEST(PolarFilter, leaves_no_filter_on_a_grid_that_does_not_go_round) {
  Grid const part = make_grid({85, 75, 65}, {0, 10, 20, 30});
  EXPECT_FALSE(polar_factors(part, 60).defined());
}

TEST(PolarFilter, is_the_same_on_all_layouts_and_leaves_other_rows_their_bits) {
  auto const comm = Comm::world();
  auto const grid = globe();
  Box const all({0, 0}, {num_rows, num_columns});
  torch::Tensor const whole = waves_on(all);
  torch::Tensor const expected =
      torch::fft::irfft(torch::fft::rfft(whole) * polar_factors(grid, 60), num_columns).contiguous();
  for (Layout const& layout : layouts(comm.num_ranks())) {
    Box const box = layout.owned(comm.rank());
    nn::Domain const domain(comm, *layout.grid(), grid.boundary);
    PolarFilter filter(grid, box, 60, torch::kFloat64, domain);
    torch::Tensor const part = waves_on(box);

    torch::Tensor const result = filter(part);

    EXPECT_LT((result - test::part_of(expected, box)).abs().sum().item<double>(), 1e-10);
    for (Index j = box.lo(0); j < box.hi(0); ++j) {
      bool const changes = !torch::equal(result.select(1, j - box.lo(0)), part.select(1, j - box.lo(0)));
      EXPECT_EQ(changes, std::abs(grid.latitudes[std::size_t(j)]) > 60) << j;
    }
  }
}

TEST(PolarFilter, is_its_own_adjoint_across_ranks) {
  auto const comm = Comm::world();
  auto const grid = globe();
  for (Layout const& layout : layouts(comm.num_ranks())) {
    Box const box = layout.owned(comm.rank());
    nn::Domain const domain(comm, *layout.grid(), grid.boundary);
    PolarFilter filter(grid, box, 45, torch::kFloat64, domain);
    torch::Tensor const x = waves_on(box).requires_grad_();
    torch::Tensor const y = waves_on(box).cos();

    (filter(x) * y).sum().backward();

    torch::NoGradGuard const no_grad;
    EXPECT_LT((x.grad() - filter(y)).abs().sum().item<double>(), 1e-10);
  }
}

}  // namespace test_polar_filter
}  // namespace graticule::models
