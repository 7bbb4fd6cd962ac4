// SPDX-License-Identifier: BSD-3-Clause
// A tripolar grid whose land is left out: several blocks per rank, or one box per rank.
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/depth.hpp>
#include <graticule/halo/plan.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace graticule;
using test::rule_of;

namespace {

constexpr Index rows = 17;
constexpr Index columns = 22;
constexpr Index width = 2;
constexpr double land = -7;
constexpr double wall = -5;

struct Place {
  Stagger row = Stagger::centre;
  Stagger column = Stagger::centre;
};

std::vector<Piece> keep(Box const& needed) {
  AxisMaps maps{};
  for (int a = 0; a < needed.ndim(); ++a) maps[std::size_t(a)].source_axis = a;
  return {{needed, maps}};
}

double own_value(Index i, Index j) { return double(i * columns + j + 1); }

/// Blocks of 3 x 4 cells and less at the ends, of which 3 of 10 are land.
std::vector<Block> ocean(int num_ranks) {
  std::vector<Block> blocks;
  int number = 0;
  for (Index i = 0; i < rows; i += 3)
    for (Index j = 0; j < columns; j += 4) {
      int const at = number++;
      if ((at * 7) % 10 < 3) continue;
      blocks.push_back({Box({i, j}, {std::min(i + 3, rows), std::min(j + 4, columns)}), at % num_ranks});
    }
  return blocks;
}

template <class List>
bool is_ocean(List const& boxes, Index i, Index j) {
  for (auto const& box : boxes)
    if (box.contains(Box({i, j}, {i + 1, j + 1}))) return true;
  return false;
}

/// What cell (i, j) holds after the exchange.
double expected(std::vector<Box> const& boxes, Place const& place, Index i, Index j) {
  if (i < 0) return wall;
  Index const column = (j + columns) % columns;
  Index const mirrored = 2 * rows - 1 - Index(place.row) - i;
  Index const partner = ((-1 - column - Index(place.column)) % columns + columns) % columns;
  double const sign = place.row == Stagger::centre && place.column == Stagger::centre ? 1 : -1;
  bool const copied = i == mirrored && column > partner && is_ocean(boxes, mirrored, partner);
  if (i >= rows || copied) return is_ocean(boxes, mirrored, partner) ? sign * own_value(mirrored, partner) : land;
  return is_ocean(boxes, i, column) ? own_value(i, column) : land;
}

HaloKind kind_of(Place const& place) {
  auto rules = Boundary::tripolar(Edge::constant, Edge::tripolar_face).staggered({place.row, place.column});
  rules.axes[0].constant = wall;
  return {.widths = {{width, width}, {width, width}}, .boundary = rules, .hole = land};
}

std::vector<Place> const c_grid{{}, {Stagger::centre, Stagger::high_face}, {Stagger::high_face, Stagger::centre}};

/// Fills the fields of a C grid in one exchange and compares every cell. `boxes` are this rank's, which lie one after
/// the other in a field, all with the extents of the largest.
void compare(HaloPlan const& plan, std::vector<Box> const& all, std::vector<Box> const& boxes) {
  int const block_axis = plan.blocks() ? 1 : 0;
  Box const local = plan.local();
  Index const num_rows = local.extent(block_axis);
  Index const num_columns = local.extent(block_axis + 1);
  std::vector<std::vector<double>> values(c_grid.size());
  std::vector<HaloField> fields;
  auto const at = [&](std::vector<double>& field, std::size_t b, Index i, Index j) -> double& {
    return field[(b * std::size_t(num_rows) + std::size_t(i - boxes[b].lo(0) + width)) * std::size_t(num_columns) +
                 std::size_t(j - boxes[b].lo(1) + width)];
  };
  for (std::size_t k = 0; k < c_grid.size(); ++k) {
    values[k].assign(std::size_t(local.num_cells()), std::nan(""));
    for (std::size_t b = 0; b < boxes.size(); ++b)
      for (Index i = boxes[b].lo(0); i < boxes[b].hi(0); ++i)
        for (Index j = boxes[b].lo(1); j < boxes[b].hi(1); ++j) at(values[k], b, i, j) = own_value(i, j);
    fields.push_back(
        {field_view(values[k].data(), local.extents(), local.ndim()), k ? Parity::odd : Parity::even, int(k)});
  }

  plan.exchange(fields);

  for (std::size_t k = 0; k < c_grid.size(); ++k)
    for (std::size_t b = 0; b < boxes.size(); ++b)
      for (Index i = boxes[b].lo(0) - width; i < boxes[b].hi(0) + width; ++i)
        for (Index j = boxes[b].lo(1) - width; j < boxes[b].hi(1) + width; ++j)
          EXPECT_EQ(at(values[k], b, i, j), expected(all, c_grid[k], i, j))
              << "kind " << k << " block " << b << " cell " << i << ", " << j;
}

std::vector<HaloKind> kinds() {
  std::vector<HaloKind> result;
  for (auto const& place : c_grid) result.push_back(kind_of(place));
  return result;
}

TEST(Blocks, exchange_all_cells_of_a_tripolar_ocean) {
  Comm const comm(MPI_COMM_WORLD);
  auto const blocks = ocean(comm.num_ranks());
  BlockGrid const grid({rows, columns}, blocks);
  std::vector<Box> all;
  std::vector<Box> own;
  for (auto const& block : grid.blocks()) {
    all.push_back(block.box);
    if (block.rank == comm.rank()) own.push_back(block.box);
  }
  ASSERT_TRUE(grid.has_holes());
  ASSERT_GT(grid.num_blocks(comm.rank()), comm.num_ranks() < 5 ? 1 : 0);

  HaloPlan const plan(comm, grid, kinds());
  compare(plan, all, own);

  EXPECT_LT(plan.counts().num_receive_peers, comm.num_ranks());
  EXPECT_EQ(rule_of([&] { HaloDepth const depth(plan, "q"); }), "Unsupported");
}

TEST(Blocks, adjoint_is_the_transpose) {
  Comm const comm(MPI_COMM_WORLD);
  BlockGrid const grid({rows, columns}, ocean(comm.num_ranks()));
  auto kind = kind_of({});
  kind.hole = 0;
  kind.boundary.axes[0].constant = 0;
  HaloPlan const plan(comm, grid, {kind});
  Box const local = plan.local();
  std::vector<double> x(std::size_t(local.num_cells()), 0);
  std::vector<double> y(x.size(), 0);
  Index const num_rows = local.extent(1);
  Index const num_columns = local.extent(2);
  int const first = grid.first_block(comm.rank());
  for (int b = 0; b < grid.num_blocks(comm.rank()); ++b) {
    Box const& box = grid.blocks()[std::size_t(first + b)].box;
    for (Index i = 0; i < box.extent(0) + 2 * width; ++i)
      for (Index j = 0; j < box.extent(1) + 2 * width; ++j) {
        auto const at = std::size_t((b * num_rows + i) * num_columns + j);
        y[at] = double((at * 31 + std::size_t(comm.rank()) * 7) % 101) / 101;
        if (i >= width && i < box.extent(0) + width && j >= width && j < box.extent(1) + width)
          x[at] = double((at * 17 + 3) % 97) / 97;
      }
  }
  auto image = x;
  plan.exchange(field_view(image.data(), local.extents(), 3));
  std::vector<double> sums(2, 0);
  for (std::size_t at = 0; at < x.size(); ++at) sums[0] += image[at] * y[at];

  plan.exchange_adjoint(field_view(y.data(), local.extents(), 3));

  for (std::size_t at = 0; at < x.size(); ++at) sums[1] += x[at] * y[at];
  comm.sum(sums);
  EXPECT_NEAR(sums[0], sums[1], 1e-10 * std::abs(sums[0]));
  EXPECT_GT(std::abs(sums[0]), 1);
}

TEST(Blocks, one_box_per_rank_may_leave_holes) {
  Comm const comm(MPI_COMM_WORLD);
  std::vector<Box> boxes;
  Index const strip = columns / comm.num_ranks();
  // The rows of each rank end elsewhere; some reach the seam.
  for (int r = 0; r < comm.num_ranks(); ++r)
    boxes.emplace_back(Indices{1 + r % 2, r * strip}, Indices{rows - (r + 1) % 3, (r + 1) * strip - r % 2});

  auto const layout = Layout::with_holes({rows, columns}, boxes);

  EXPECT_EQ(rule_of([&] { AxisSumPlan const sums(comm, layout, 1); }), "Unsupported");
  EXPECT_EQ(
      rule_of([&] {
        PullPlan const all(comm, {layout, {{layout.owned(comm.rank()), {{layout.global(), {layout.global()}}}, keep}}});
      }),
      "OutOfRange");
  ASSERT_TRUE(layout.has_holes());
  EXPECT_EQ(rule_of([&] { (void)Layout::from_boxes({rows, columns}, boxes); }), "BadLayout");
  compare(HaloPlan(comm, layout, kinds()), boxes, {boxes[std::size_t(comm.rank())]});
}

TEST(Blocks, are_found_by_number_among_thousands) {
  constexpr Index per_axis = 64;
  constexpr Index extent = 3;
  std::vector<Block> blocks;
  for (Index i = 0; i < per_axis; ++i)
    for (Index j = 0; j < per_axis; ++j)
      if ((i * per_axis + j) % 7 != 0)
        blocks.push_back({Box({i * extent, j * extent}, {(i + 1) * extent, (j + 1) * extent}), int((i * 5 + j) % 11)});
  BlockGrid const grid({per_axis * extent, per_axis * extent}, blocks);
  using Parts = std::vector<std::pair<int, Box>>;

  for (auto const& sought : {Box({1, 1}, {2, 2}), Box({100, 90}, {110, 91}), Box({0, 0}, {1, 192}),
                             Box({-3, 185}, {5, 400}), Box({0, 0}, {192, 192}), Box({7, 7}, {7, 9})}) {
    Parts found;
    grid.for_each_owner(sought, [&](int block, Box const& part) { found.emplace_back(block, part); });

    Parts expected;
    for (std::size_t b = 0; b < grid.blocks().size(); ++b)
      if (Box const part = intersection(sought, grid.blocks()[b].box); !part.empty())
        expected.emplace_back(int(b), part);
    EXPECT_EQ(found, expected) << to_string(sought);
  }
}

TEST(Blocks, with_common_cells_are_refused) {
  std::vector<Block> const blocks{{Box({0, 0}, {2, 3}), 0}, {Box({1, 2}, {4, 4}), 0}};
  std::vector<Block> const beyond{{Box({0, 0}, {2, 5}), 0}};
  std::vector<Block> const empty{{Box({1, 1}, {1, 1}), 0}};

  EXPECT_EQ(rule_of([&] { BlockGrid const grid({4, 4}, blocks); }), "BadLayout");
  EXPECT_EQ(rule_of([&] { BlockGrid const grid({4, 4}, beyond); }), "BadLayout");
  EXPECT_EQ(rule_of([&] { BlockGrid const grid({4, 4}, empty); }), "BadLayout");
}

}  // namespace
