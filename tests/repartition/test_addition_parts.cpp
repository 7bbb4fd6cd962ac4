// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cells.hpp>

#include "table/addition_parts.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

using namespace graticule;

namespace {

/// Reads `from`, along axis 0 downwards where `reflected`.
detail::Transfer transfer_from(Box const& from, int kind = 0, bool reflected = false) {
  detail::Transfer result;
  result.kind = kind;
  result.from = from;
  Box to = from;
  for (int a = 0; a < from.ndim(); ++a) {
    bool const down = reflected && a == 0;
    to.set(a, 100, 100 + from.extent(a));
    result.maps[std::size_t(a)] = {a, down ? -1 : 1, down ? 100 + from.hi(a) - 1 : from.lo(a) - 100};
  }
  result.to = to;
  return result;
}

std::vector<detail::AdditionPart> parts_of(std::vector<detail::Transfer> const& transfers) {
  std::vector<detail::Transfer const*> all;
  for (auto const& transfer : transfers) all.push_back(&transfer);
  return detail::addition_parts(all);
}

}  // namespace

TEST(AdditionParts, have_the_same_cells_or_none_in_common) {
  std::mt19937 random(7);
  auto const random_box = [&] {
    Box box(Indices{0, 0}, Indices{0, 0});
    for (int a = 0; a < 2; ++a) {
      Index const lo = Index(random() % 9);
      box.set(a, lo, lo + 1 + Index(random() % 5));
    }
    return box;
  };
  for (int round = 0; round < 100; ++round) {
    std::vector<detail::Transfer> transfers;
    for (int t = 0; t < 6; ++t) transfers.push_back(transfer_from(random_box(), t % 2));
    // What is added to each cell, in order; by kind and place.
    using Cell = std::vector<Index>;
    std::map<Cell, std::vector<int>> expected;
    std::map<Cell, std::vector<int>> found;
    for (int t = 0; t < 6; ++t)
      for_each_cell(transfers[std::size_t(t)].from, [&](Indices const& cell) {
        expected[{t % 2, cell[0], cell[1]}].push_back(t);
      });
    Box group;
    for (auto const& part : parts_of(transfers)) {
      if (part.follows)
        EXPECT_EQ(part.cells, group);
      else
        group = part.cells;
      int const kind = transfers[std::size_t(part.addition)].kind;
      for_each_cell(part.cells, [&](Indices const& cell) {
        auto& additions = found[{kind, cell[0], cell[1]}];
        EXPECT_EQ(additions.empty(), !part.follows);
        additions.push_back(part.addition);
      });
    }
    EXPECT_EQ(found, expected);
  }
}

TEST(AdditionParts, are_none_where_maps_are_not_one_to_one_or_too_many_meet) {
  auto transfer = transfer_from(Box(Indices{3, 3}, Indices{4, 6}));
  for (int const slope : {0, 2, -2}) {
    transfer.maps[0].slope = slope;
    EXPECT_TRUE(parts_of({transfer}).empty()) << slope;
  }
  std::vector<detail::Transfer> rows;
  for (Index i = 0; i < 40; ++i) {
    rows.push_back(transfer_from(Box(Indices{2 * i, 0}, Indices{2 * i + 1, 80})));
    rows.push_back(transfer_from(Box(Indices{0, 2 * i}, Indices{80, 2 * i + 1})));
  }
  EXPECT_TRUE(parts_of(rows).empty());
}

TEST(AdditionParts, of_a_transfer_read_their_cells) {
  Box const from(Indices{10, 20}, Indices{16, 25});
  Box const cells(Indices{11, 22}, Indices{13, 25});

  auto const upwards = detail::part_of(transfer_from(from), cells);
  EXPECT_EQ(upwards.to, Box(Indices{101, 102}, Indices{103, 105}));
  auto const downwards = detail::part_of(transfer_from(from, 0, true), cells);
  EXPECT_EQ(downwards.to, Box(Indices{103, 102}, Indices{105, 105}));
  EXPECT_EQ(downwards.from, cells);
}
