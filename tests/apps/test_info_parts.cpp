// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/placement.hpp>

#include "expect_error.hpp"
#include "options.hpp"
#include "plan_picture.hpp"
#include "text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

using namespace graticule;
using test::rule_of;
using test::thrown_by;

namespace {

TEST(InfoOptions, read_widths_of_one_and_two_sides) {
  EXPECT_EQ(info::parse_widths("1x2"), (std::vector<Width>{{1, 1}, {2, 2}}));
  EXPECT_EQ(info::parse_widths("2:1x0:3"), (std::vector<Width>{{2, 1}, {0, 3}}));
  for (auto const* text : {"", "1", "1x", "x1", "1x1x1", "-1x1", "1:2:3x1", "1.5x1", "1:x1", "one x 1"})
    EXPECT_EQ(rule_of([&] { (void)info::parse_widths(text); }), "BadOption") << text;
}

TEST(InfoOptions, put_the_pole_on_a_row_or_a_face) {
  auto const odd = info::parse_boundary("pole,periodic", {721, 1440});
  auto const even = info::parse_boundary("pole,periodic", {720, 1440});
  auto const sides = info::parse_boundary("reflect:tripolar_row,periodic", {720, 1440});
  auto const walls = info::parse_boundary("zero,untouched:replicate", {720, 1440});

  EXPECT_EQ(odd, Boundary::sphere(Edge::pole_row));
  EXPECT_EQ(even, Boundary::sphere(Edge::pole_face));
  EXPECT_EQ(sides.axes[0].lower, Edge::reflect);
  EXPECT_EQ(sides.axes[0].upper, Edge::tripolar_row);
  EXPECT_EQ(sides.longitude_axis, 1);
  EXPECT_EQ(walls.axes[0].lower, Edge::constant);
  EXPECT_EQ(walls.axes[1].lower, Edge::untouched);
  EXPECT_EQ(walls.axes[1].upper, Edge::replicate);
  EXPECT_EQ(walls.longitude_axis, -1);
  for (auto const* text : {"", "pole", "pole,periodic,zero", "pole,ring", "a:b:c,zero", "pole:pole:pole,periodic"})
    EXPECT_EQ(rule_of([&] { (void)info::parse_boundary(text, {4, 8}); }), "BadOption") << text;
}

TEST(InfoOptions, read_partitions_and_their_ranks) {
  EXPECT_EQ(info::parse_partition("auto"), Indices({0, 0}));
  EXPECT_EQ(info::parse_partition("8x0"), Indices({8, 0}));
  EXPECT_EQ(info::total_ranks({8, 4}, 0, "8x4"), 32);
  EXPECT_EQ(info::total_ranks({8, 0}, 64, "8x0"), 64);
  EXPECT_EQ(rule_of([] { (void)info::total_ranks({8, 4}, 31, "8x4"); }), "BadOption");
  for (auto const* text : {"", "8", "8x", "8x4x2", "-8x4", "99999999x1", "eight"})
    EXPECT_EQ(rule_of([&] { (void)info::parse_partition(text); }), "BadOption") << text;
}

TEST(InfoOptions, read_cuts_of_one_and_two_axes) {
  auto const comm = Comm::world();
  auto const parse = [&](std::string const& text) { return info::parse_cut_choice(comm, text, {241, 480}); };

  EXPECT_FALSE(parse("balanced").given[0]);
  EXPECT_TRUE(parse("area").by_area);
  EXPECT_EQ(*parse("61,60,60,60").given[0], (Cuts{61, 60, 60, 60}));
  EXPECT_FALSE(parse("61,60,60,60").given[1]);
  EXPECT_EQ(*parse("121,120x240,240").given[1], (Cuts{240, 240}));
  for (auto const* text : {"", "61,60,60", "61,-60", "241x480x1", "241x479", "even", "9223372036854775807,1"})
    EXPECT_EQ(rule_of([&] { (void)parse(text); }), "BadCuts") << text;
}

TEST(InfoText, gives_three_digits_and_a_unit) {
  EXPECT_EQ(info::bytes_text(0), "0 B");
  EXPECT_EQ(info::bytes_text(999), "999 B");
  EXPECT_EQ(info::bytes_text(1234567), "1.23 MB");
  EXPECT_EQ(info::bytes_text(45600), "45.6 kB");
  EXPECT_EQ(info::bytes_text(999600), "1.00 MB");
  EXPECT_EQ(info::bytes_text(123456789), "123 MB");
  EXPECT_EQ(info::seconds_text(0.0000931), "93.1 us");
  EXPECT_EQ(info::seconds_text(2), "2 s");
}

TEST(InfoText, lines_columns_up) { EXPECT_EQ(info::table_text({{"a", "bb"}, {"ccc", "d"}}), "  a    bb\n  ccc   d\n"); }

/// True when no two nodes that touch, round the globe too, have one colour.
bool neighbors_differ(std::vector<int> const& node_at, std::vector<int> const& colours, int rows, int columns) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      for (int di = 0; di <= 1 && i + di < rows; ++di)
        for (int dj = -1; dj <= 1; ++dj) {
          int const one = node_at[std::size_t(i * columns + j)];
          int const other = node_at[std::size_t((i + di) * columns + (j + dj + columns) % columns)];
          if (one != other && colours[std::size_t(one)] == colours[std::size_t(other)]) return false;
        }
  return true;
}

TEST(PlanPicture, tells_touching_nodes_apart) {
  for (auto const& [rows, columns, block_rows, block_columns] :
       std::vector<std::array<int, 4>>{{8, 8, 2, 2}, {64, 64, 4, 4}, {7, 5, 1, 1}, {12, 1, 4, 1}, {16, 32, 2, 8}}) {
    std::vector<int> node_at;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        node_at.push_back(i / block_rows * (columns / block_columns) + j / block_columns);

    auto const colours = info::node_colours(node_at, rows, columns);

    EXPECT_TRUE(neighbors_differ(node_at, colours, rows, columns)) << rows << " x " << columns;
  }
}

TEST(PlanPicture, draws_every_part_and_leaves_out_the_empty_ones) {
  Layout const layout(ProcessGrid{4, 2}, {Cuts{3, 0, 3, 4}, Cuts{8, 12}});

  auto const svg = info::to_svg({layout, consecutive_nodes(8, 2), info::Ticks::degrees, {{"a & b", "<1>"}}});

  // One patch for each of the three nodes that own cells, and the numbers of their ranks.
  std::size_t num_patches = 0;
  for (std::size_t at = svg.find("<rect"); at < svg.find("</g>"); at = svg.find("<rect", at + 1)) ++num_patches;
  EXPECT_EQ(num_patches, 1U + 3U);
  for (auto const* text : {">0<", ">1<", ">4<", ">5<", ">6<", ">7<", "10 x 20 cells on 8 ranks: 4 x 2",
                           "latitude (degrees north)", "longitude (degrees east)", "a &amp; b", "&lt;1&gt;"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find("class=\"rank\">2<"), std::string::npos);
}

}  // namespace
