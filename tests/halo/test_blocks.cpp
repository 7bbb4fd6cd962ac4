// SPDX-License-Identifier: BSD-3-Clause
// A tripolar grid whose land is left out: several blocks per rank, or one box per rank.
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/cell_sum.hpp>
#include <graticule/halo/depth.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/halo/virtual_plan.hpp>
#include <graticule/repartition/block_views.hpp>
#include <graticule/repartition/plan.hpp>

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
  EXPECT_EQ(rule_of([&] { VirtualHalo const halo(layout, kinds().front()); }), "Unsupported");
  auto component = kinds().front();
  component.component = 0;
  Layout const whole(ProcessGrid{comm.num_ranks(), 1}, {rows, columns});
  EXPECT_EQ(rule_of([&] { VirtualHalo const halo(whole, component); }), "Unsupported");
  EXPECT_EQ(rule_of([&] { HaloDepth const depth(HaloPlan(comm, layout, kinds()), "q"); }), "Unsupported");
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
    grid.for_each_owner(0, sought, [&](int block, Box const& part) { found.emplace_back(block, part); });

    Parts expected;
    for (std::size_t b = 0; b < grid.blocks().size(); ++b)
      if (Box const part = intersection(sought, grid.blocks()[b].box); !part.empty())
        expected.emplace_back(int(b), part);
    EXPECT_EQ(found, expected) << to_string(sought);
  }
}

/// The blocks of fields with values on all faces along some axes: one cell more at the upper ends of the grid.
std::vector<Box> with_faces(std::vector<Box> boxes, bool of_rows, bool of_columns) {
  for (auto& box : boxes) {
    if (of_rows && box.hi(0) == rows) box.set(0, box.lo(0), rows + 1);
    if (of_columns && box.hi(1) == columns) box.set(1, box.lo(1), columns + 1);
  }
  return boxes;
}

/// Walls on all sides; components of vectors on all faces along their axis, which change sign behind a wall.
double behind_walls(std::vector<Box> const& boxes, bool of_rows, bool of_columns, Index i, Index j) {
  double sign = 1;
  auto const mirrored = [&](Index e, Index n, bool faces) {
    if (e >= 0 && e < n + Index(faces)) return e;
    if (faces) sign = -sign;
    return e < 0 ? -e - Index(!faces) : 2 * n - Index(!faces) - e;
  };
  Index const row = mirrored(i, rows, of_rows);
  Index const column = mirrored(j, columns, of_columns);
  return is_ocean(boxes, row, column) ? sign * own_value(row, column) : land;
}

HaloKind kind_with_walls(bool of_rows, bool of_columns) {
  auto rules = Boundary::uniform(2, Edge::symmetric);
  for (int a : {0, 1})
    if (a == 0 ? of_rows : of_columns)
      rules.axes[std::size_t(a)] = {Edge::antisymmetric, Edge::antisymmetric, 0, Stagger::all_faces};
  return {.widths = {{width, width}, {width, width}}, .boundary = rules, .hole = land};
}

void compare_walls(Comm const& comm, HaloPlan const& plan, std::vector<Block> const& blocks) {
  int const block_axis = plan.blocks() ? 1 : 0;
  std::vector<std::vector<double>> values(4);
  std::vector<HaloField> fields;
  std::vector<std::vector<Box>> all(4);
  std::vector<std::vector<Box>> own(4);
  auto const at = [&](int k, std::size_t b, Index i, Index j) -> double& {
    Box const& local = plan.local(k);
    auto const& box = own[std::size_t(k)][b];
    return values[std::size_t(k)][(b * std::size_t(local.extent(block_axis)) + std::size_t(i - box.lo(0) + width)) *
                                      std::size_t(local.extent(block_axis + 1)) +
                                  std::size_t(j - box.lo(1) + width)];
  };
  for (int k = 0; k < 4; ++k) {
    auto const n = std::size_t(k);
    std::vector<Box> every;
    std::vector<Box> mine;
    for (auto const& block : blocks) {
      every.push_back(block.box);
      if (block.rank == comm.rank()) mine.push_back(block.box);
    }
    all[n] = with_faces(every, k / 2 != 0, k % 2 != 0);
    own[n] = with_faces(mine, k / 2 != 0, k % 2 != 0);
    values[n].assign(std::size_t(plan.local(k).num_cells()), std::nan(""));
    for (std::size_t b = 0; b < own[n].size(); ++b)
      for (Index i = own[n][b].lo(0); i < own[n][b].hi(0); ++i)
        for (Index j = own[n][b].lo(1); j < own[n][b].hi(1); ++j) at(k, b, i, j) = own_value(i, j);
    fields.push_back({field_view(values[n].data(), plan.local(k).extents(), plan.local().ndim()), Parity::even, k});
  }

  plan.exchange(fields);

  for (int k = 0; k < 4; ++k)
    for (std::size_t b = 0; b < own[std::size_t(k)].size(); ++b) {
      Box const cells = grown(own[std::size_t(k)][b], kind_with_walls(false, false).widths);
      for (Index i = cells.lo(0); i < cells.hi(0); ++i)
        for (Index j = cells.lo(1); j < cells.hi(1); ++j)
          EXPECT_EQ(at(k, b, i, j), behind_walls(all[std::size_t(k)], k / 2 != 0, k % 2 != 0, i, j))
              << "kind " << k << " block " << b << " cell " << i << ", " << j;
    }
}

std::vector<HaloKind> kinds_with_walls() {
  return {kind_with_walls(false, false), kind_with_walls(false, true), kind_with_walls(true, false),
          kind_with_walls(true, true)};
}

TEST(Blocks, have_values_on_all_faces) {
  Comm const comm(MPI_COMM_WORLD);
  auto const blocks = ocean(comm.num_ranks());

  HaloPlan const plan(comm, BlockGrid({rows, columns}, blocks), kinds_with_walls());

  compare_walls(comm, plan, blocks);
  EXPECT_EQ(plan.blocks(3)->extents(), (Indices{rows + 1, columns + 1}));
}

TEST(Blocks, boxes_with_holes_have_values_on_all_faces) {
  Comm const comm(MPI_COMM_WORLD);
  std::vector<Block> blocks;
  std::vector<Box> boxes;
  Index const strip = columns / comm.num_ranks();
  for (int r = 0; r < comm.num_ranks(); ++r) {
    Index const end = r + 1 == comm.num_ranks() ? columns : (r + 1) * strip - r % 2;
    boxes.emplace_back(Indices{r % 2, r * strip}, Indices{rows - r % 3, end});
    blocks.push_back({boxes.back(), r});
  }
  boxes.front().set(1, 2, boxes.front().hi(1));
  blocks.front().box = boxes.front();

  HaloPlan const plan(comm, Layout::with_holes({rows, columns}, boxes), kinds_with_walls());

  compare_walls(comm, plan, blocks);
  ASSERT_TRUE(plan.layout(3).has_holes());
}

TEST(Blocks, move_from_and_to_other_layouts) {
  Comm const comm(MPI_COMM_WORLD);
  BlockGrid const grid({rows, columns}, ocean(comm.num_ranks()));
  HaloPlan const halo(comm, grid, {kind_of({})});
  Layout const whole(ProcessGrid{comm.num_ranks(), 1}, {rows, columns});
  Box const mine = whole.owned(comm.rank());
  std::vector<double> on_rows;
  for (Index i = mine.lo(0); i < mine.hi(0); ++i)
    for (Index j = 0; j < columns; ++j) on_rows.push_back(own_value(i, j));
  Box const local = halo.local();
  std::vector<double> t(std::size_t(local.num_cells()), std::nan(""));
  auto const cells = field_view(t.data(), local.extents(), 3).part(local, halo.owned());
  auto const blocks = views_of_blocks(grid, comm.rank(), cells);
  RepartitionPlan const plan(comm, whole, grid.boxes(comm.rank()));

  plan.apply(field_view(on_rows.data(), mine.extents(), 2), blocks);

  auto const own = grid.boxes(comm.rank());
  std::vector<double> weights(std::size_t(halo.owned().num_cells()), 0);
  Box const& places = halo.owned();
  for (std::size_t b = 0; b < own.size(); ++b)
    for (Index i = 0; i < own[b].extent(0); ++i)
      for (Index j = 0; j < own[b].extent(1); ++j) {
        auto const at = (Index(b) * local.extent(1) + i + width) * local.extent(2) + j + width;
        EXPECT_EQ(t[std::size_t(at)], own_value(own[b].lo(0) + i, own[b].lo(1) + j));
        weights[std::size_t((Index(b) * places.extent(1) + i) * places.extent(2) + j)] = 1;
        t[std::size_t(at)] *= 2;
      }
  plan.apply_inverse(field_view(on_rows.data(), mine.extents(), 2), blocks);

  std::vector<Box> all;
  for (auto const& block : grid.blocks()) all.push_back(block.box);
  std::size_t at = 0;
  double sum = 0;
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      bool const is_block = is_ocean(all, i, j);
      if (is_block) sum += 2 * own_value(i, j);
      if (i < mine.lo(0) || i >= mine.hi(0)) continue;
      EXPECT_EQ(on_rows[at++], own_value(i, j) * (is_block ? 2 : 1));
    }
  // Places of no cell have the weight 0, whatever they hold.
  CellSum const sums(comm, grid.layout(), field_view(weights.data(), places.extents(), 3));
  EXPECT_EQ(sums.apply(cells), std::vector<double>{sum});
}

/// The code of docs/grids.md.
TEST(Blocks, of_the_page) {
  Comm const comm(MPI_COMM_WORLD);
  Index const num_rows = rows;
  Index const num_columns = columns;

  std::vector<Block> const blocks = ocean(comm.num_ranks());  // {box, rank}, without those on land
  BlockGrid const grid({num_rows, num_columns}, blocks);
  auto const rules = Boundary::tripolar(Edge::constant, Edge::tripolar_face);
  HaloPlan const plan(comm, grid, {{.widths = {{1, 1}, {1, 1}}, .boundary = rules, .hole = land}});
  Box const local = plan.local();  // (number of the block, row, column)
  std::vector<double> t(std::size_t(local.num_cells()));
  plan.exchange(field_view(t.data(), local.extents(), 3));

  std::vector<Box> boxes;
  for (auto const& block : blocks) boxes.push_back(block.box);
  Box const first = grid.boxes(comm.rank()).front();
  bool const on_land = first.lo(0) > 0 && !is_ocean(boxes, first.lo(0) - 1, (first.lo(1) - 1 + columns) % columns);
  EXPECT_EQ(t.front(), on_land ? land : 0);
  t.assign(t.size(), 5);
  std::vector<double> whole(std::size_t(num_rows * num_columns), land);

  Layout const bands(ProcessGrid{comm.num_ranks(), 1}, {num_rows, num_columns});
  RepartitionPlan const to_blocks(comm, bands, grid.boxes(comm.rank()));
  auto const cells = field_view(t.data(), local.extents(), 3).part(local, plan.owned());
  auto const on_blocks = views_of_blocks(grid, comm.rank(), cells);
  to_blocks.apply_inverse(field_view(whole.data(), bands.owned(comm.rank()).extents(), 2), on_blocks);

  Box const band = bands.owned(comm.rank());
  for (Index i = 0; i < band.extent(0); ++i)
    for (Index j = 0; j < columns; ++j)
      EXPECT_EQ(whole[std::size_t(i * columns + j)], is_ocean(boxes, band.lo(0) + i, j) ? 5 : land);
}

TEST(Blocks, with_holes_of_the_page) {
  Comm const comm(MPI_COMM_WORLD);
  Index const num_rows = 4;
  Index const num_columns = 3 * comm.num_ranks();
  auto const rules = Boundary::uniform(2, Edge::periodic);
  std::vector<Box> boxes;
  for (int r = 0; r < comm.num_ranks(); ++r) boxes.emplace_back(Indices{0, 3 * r}, Indices{4, 3 * r + 2});

  auto const layout = Layout::with_holes({num_rows, num_columns}, boxes);
  HaloPlan const plan(comm, layout, {{.widths = {{1, 1}, {1, 1}}, .boundary = rules, .hole = land}});

  std::vector<double> t(24, 5);
  plan.exchange(field_view(t.data(), {6, 4}, 2));
  for (std::size_t at = 0; at < t.size(); ++at) EXPECT_EQ(t[at], at % 4 == 0 || at % 4 == 3 ? land : 5);
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
