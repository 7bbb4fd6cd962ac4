// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cells.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>

#include "expect_error.hpp"
#include "random_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

using namespace graticule;
using graticule::test::draw;
using graticule::test::Random;
using graticule::test::rule_of;
using graticule::test::thrown_by;

namespace {

Layout random_cuts(Random& random, int ndim) {
  auto extents = Indices::filled(ndim, 1);
  std::vector<Cuts> cuts;
  for (int a = 0; a < ndim; ++a) {
    extents[a] = draw(random, 1, 4);
    std::vector<Index> sizes(std::size_t(extents[a]), 0);
    for (auto& size : sizes) size = draw(random, 0, 4);
    cuts.emplace_back(sizes);
  }
  return {test::random_rank_order(random, extents, ProcessGrid(extents).num_ranks() + 2), cuts};
}

Layout random_boxes(Random& random, int ndim) {
  return test::random_box_layout(random, 7, test::random_extents(random, ndim, 8));
}

Box random_query(Random& random, Layout const& layout) {
  Box box(Indices::filled(layout.ndim(), 0), Indices::filled(layout.ndim(), 0));
  for (int a = 0; a < layout.ndim(); ++a) {
    Index const lo = draw(random, -2, layout.extent(a));
    box.set(a, lo, lo + draw(random, 0, layout.extent(a) + 2));
  }
  return box;
}

void expect_owners_as_by_search(Random& random, Layout const& layout, int& num_hits) {
  Index num_cells = 0;
  for (int r = 0; r < layout.num_ranks(); ++r) num_cells += layout.owned(r).num_cells();
  ASSERT_EQ(num_cells, layout.global().num_cells()) << to_string(layout);
  for (int query = 0; query < 10; ++query) {
    Box const box = random_query(random, layout);
    std::vector<std::pair<int, Box>> expected;
    for (int r = 0; r < layout.num_ranks(); ++r)
      if (Box const part = intersection(layout.owned(r), box); !part.empty()) expected.emplace_back(r, part);
    num_hits += int(expected.size());

    std::vector<std::pair<int, Box>> found;
    layout.for_each_owner(box, [&](int rank, Box const& part) { found.emplace_back(rank, part); });

    ASSERT_EQ(found, expected) << to_string(box) << " in " << to_string(layout);
  }
}

TEST(Layout, finds_the_owners_of_random_cuts) {
  Random random(1);
  int num_hits = 0;
  for (int trial = 0; trial < 200; ++trial)
    expect_owners_as_by_search(random, random_cuts(random, 1 + trial % 3), num_hits);
  EXPECT_GT(num_hits, 1000);
}

TEST(Layout, finds_the_owners_of_random_boxes) {
  Random random(2);
  int num_hits = 0;
  for (int trial = 0; trial < 200; ++trial)
    expect_owners_as_by_search(random, random_boxes(random, 1 + trial % 3), num_hits);
  EXPECT_GT(num_hits, 1000);
}

TEST(Layout, finds_the_owners_among_many_boxes) {
  Random random(3);
  int num_hits = 0;
  for (auto const& extents : {Indices{1, 5000}, Indices{5000, 1}, Indices{60, 50}, Indices{13, 14, 15}}) {
    std::vector<Box> boxes;
    for_each_cell(Box::from_extents(extents), [&](Indices const& cell) {
      auto hi = cell;
      for (int a = 0; a < hi.size(); ++a) ++hi[a];
      boxes.emplace_back(cell, hi);
    });
    std::shuffle(boxes.begin(), boxes.end(), random);

    expect_owners_as_by_search(random, Layout::from_boxes(extents, boxes), num_hits);
  }
  EXPECT_GT(num_hits, 1000);
}

// Each of 20,000 boxes starts in the same row: compared one by one they would take minutes.
TEST(Layout, takes_many_bands_along_any_axis) {
  constexpr Index count = 20000;
  for (int axis = 0; axis < 2; ++axis) {
    std::vector<Box> boxes;
    for (Index i = 0; i < count; ++i) {
      Box box({0, 0}, {3, 3});
      box.set(axis, i, i + 1);
      boxes.push_back(box);
    }
    auto extents = Indices{3, 3};
    extents[axis] = count;

    auto const layout = Layout::from_boxes(extents, boxes);

    std::vector<int> owners;
    Box sought = layout.global();
    sought.set(axis, 777, 780);
    layout.for_each_owner(sought, [&](int rank, Box const&) { owners.push_back(rank); });
    EXPECT_EQ(owners, (std::vector<int>{777, 778, 779}));
    boxes[5].set(axis, 4, 6);
    EXPECT_EQ(rule_of([&] { (void)Layout::from_boxes(extents, boxes); }),
              (test::ErrorWith{"BadLayout", "ranks 4 and 5 both own"}));
  }
}

TEST(Layout, owns_the_documented_boxes) {
  Layout const layout(ProcessGrid{4, 1}, Indices{241, 480});

  ASSERT_EQ(layout.num_ranks(), 4);
  EXPECT_EQ(layout.owned(0), Box({0, 0}, {61, 480}));
  EXPECT_EQ(layout.owned(1), Box({61, 0}, {121, 480}));
  EXPECT_EQ(layout.owned(3), Box({181, 0}, {241, 480}));
  EXPECT_EQ(layout.global(), Box({0, 0}, {241, 480}));
  EXPECT_EQ(layout.cuts(0)->sizes(), (std::vector<Index>{61, 60, 60, 60}));
}

TEST(Layout, puts_the_last_axis_of_the_grid_fastest) {
  Layout const layout(ProcessGrid{2, 3}, {Cuts{1, 2}, Cuts{4, 5, 6}});

  EXPECT_EQ(layout.owned(1), Box({0, 4}, {1, 9}));
  EXPECT_EQ(layout.owned(3), Box({1, 0}, {3, 4}));
}

TEST(Layout, gives_nothing_to_ranks_beyond_its_description) {
  Layout const cuts(ProcessGrid{2}, Indices{5});
  Layout const boxes = Layout::from_boxes({5}, std::vector<Box>{Box({0}, {5})});

  EXPECT_TRUE(cuts.owned(2).empty());
  EXPECT_TRUE(boxes.owned(1).empty());
  EXPECT_EQ(cuts.owned(7).ndim(), 1);
  EXPECT_EQ(rule_of([&] { (void)cuts.owned(-1); }), "OutOfRange");
}

TEST(Layout, gives_boxes_in_the_order_of_the_grid) {
  Layout const blocks(ProcessGrid::in_blocks({2, 4}, {2, 2}), Indices{2, 8});
  Layout const some(ProcessGrid::on_ranks({2}, {3, 1}), Indices{6});

  EXPECT_EQ(blocks.owned(2), Box({1, 0}, {2, 2}));
  EXPECT_EQ(blocks.owned(5), Box({0, 6}, {1, 8}));
  EXPECT_EQ(some.num_ranks(), 4);
  EXPECT_EQ(some.owned(3), Box({0}, {3}));
  EXPECT_EQ(some.owned(1), Box({3}, {6}));
  EXPECT_TRUE(some.owned(0).empty());
  EXPECT_TRUE(some.owned(2).empty());
}

TEST(Layout, keeps_more_ranks_than_rows) {
  Layout const layout(ProcessGrid{5, 1}, Indices{3, 4});

  EXPECT_EQ(layout.owned(2), Box({2, 0}, {3, 4}));
  EXPECT_TRUE(layout.owned(3).empty());
  EXPECT_TRUE(layout.owned(4).empty());
  EXPECT_EQ(layout.num_ranks(), 5);
}

TEST(Layout, refuses_cuts_that_do_not_fit_the_grid) {
  EXPECT_EQ(rule_of([] { Layout(ProcessGrid{2, 1}, {Cuts{1, 2}}); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { Layout(ProcessGrid{2}, Indices{3, 4}); }), "AxesMismatch");
  EXPECT_EQ(rule_of([] { Layout(ProcessGrid{2, 2}, {Cuts{1, 2}, Cuts{3}}); }), "BadCuts");
  EXPECT_EQ(rule_of([] { Layout(ProcessGrid{2}, Indices{-3}); }), "BadCuts");
  EXPECT_EQ(rule_of([] { Layout(ProcessGrid{1, 1}, Indices{std::numeric_limits<Index>::max(), 2}); }), "OutOfRange");
}

TEST(Layout, refuses_boxes_that_overlap_and_names_the_ranks) {
  std::vector<Box> const boxes{Box({0, 0}, {2, 4}), Box({2, 2}, {4, 4}), Box({1, 1}, {4, 2}), Box({2, 0}, {4, 1})};

  auto const thrown = thrown_by([&] { (void)Layout::from_boxes({4, 4}, boxes); });

  EXPECT_EQ(thrown.rule, "BadLayout");
  EXPECT_NE(thrown.text.find("0"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("2"), std::string::npos) << thrown.text;
  EXPECT_NE(thrown.text.find("[1, 2) x [1, 2)"), std::string::npos) << thrown.text;
}

TEST(Layout, refuses_every_gap_overlap_and_stray_box) {
  struct Row {
    test::ErrorWith error;
    std::vector<Box> boxes;
  };
  std::vector<Row> const rows{
      {{"BadLayout", "the boxes cover 0 cells, the global box [0, 4) x [0, 4) has 16: no rank owns [0, 4) x [0, 4)"},
       {}},
      {{"BadLayout", "no rank owns [0, 4) x [3, 4)"}, {Box({0, 0}, {4, 3})}},
      {{"BadLayout", "no rank owns [2, 3) x [0, 4)"}, {Box({0, 0}, {2, 4}), Box({3, 0}, {4, 4})}},
      {{"BadLayout", "no rank owns [1, 2) x [2, 3)"},
       {Box({0, 0}, {1, 4}), Box({1, 0}, {2, 2}), Box({1, 3}, {4, 4}), Box({2, 0}, {4, 3})}},
      {{"BadLayout", "exceeds the global box"}, {Box({0, 0}, {5, 4})}},
      {{"BadLayout", "exceeds the global box"}, {Box({-1, 0}, {4, 4})}},
      {{"BadLayout", "both own"}, {Box({0, 0}, {4, 4}), Box({0, 0}, {4, 4})}},
      // As many cells as the global box, so counting alone sees nothing.
      {{"BadLayout", "both own"}, {Box({0, 0}, {2, 4}), Box({1, 0}, {3, 4})}},
      {{"BadLayout", "both own"}, {Box({0, 0}, {4, 2}), Box({3, 1}, {4, 4}), Box({0, 2}, {4, 3}), Box({0, 3}, {1, 4})}},
      {{"AxesMismatch", ""}, {Box({0}, {4})}},
      {{"AxesMismatch", ""}, {Box({0, 0}, {4, 4}), Box({0}, {0})}},
      {{"nothing was thrown", ""}, {Box({0, 0}, {2, 4}), Box({9, 9}, {9, 9}), Box({2, 0}, {4, 4})}},
  };
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(rule_of([&] { (void)Layout::from_boxes({4, 4}, rows[i].boxes); }), rows[i].error) << "row " << i;
}

// One cell moved from its owner to another one must never pass.
TEST(Layout, refuses_a_random_tiling_with_one_box_moved) {
  Random random(5);
  int num_tried = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Indices const extents{draw(random, 2, 6), draw(random, 2, 6)};
    std::vector<Box> boxes;
    test::bisect(random, Box::from_extents(extents), 5, boxes);
    auto& box = boxes[std::size_t(draw(random, 0, 4))];
    int const axis = int(draw(random, 0, 1));
    if (box.empty()) continue;
    Index const step = draw(random, 0, 1) == 0 ? 1 : -1;
    box.set(axis, box.lo(axis) + step, box.hi(axis) + step);
    ++num_tried;

    auto const rule = rule_of([&] { (void)Layout::from_boxes(extents, boxes); });

    ASSERT_EQ(rule, "BadLayout");
    auto const says = [&](char const* words) { return rule.text.find(words) != std::string::npos; };
    ASSERT_TRUE(says("both own") || says("exceeds the global box") || says("the boxes cover")) << rule.text;
  }
  EXPECT_GT(num_tried, 50);
}

TEST(Layout, fingerprints_tell_layouts_apart_and_agree_among_ranks) {
  auto const comm = Comm::world();
  std::vector<Layout> const layouts{
      {ProcessGrid{2, 1}, Indices{4, 6}},
      {ProcessGrid{1, 2}, Indices{4, 6}},
      {ProcessGrid{2, 1}, Indices{6, 4}},
      {ProcessGrid{2, 1}, {Cuts{1, 3}, Cuts{6}}},
      {ProcessGrid{2, 1}, {Cuts{3, 1}, Cuts{6}}},
      {ProcessGrid{3, 1}, {Cuts{3, 1, 0}, Cuts{6}}},
      {ProcessGrid::on_ranks({2, 1}, {1, 0}), Indices{4, 6}},
      {ProcessGrid::on_ranks({2, 1}, {0, 2}), Indices{4, 6}},
      Layout::from_boxes({4, 6}, std::vector{Box({0, 0}, {3, 6}), Box({3, 0}, {4, 6})}),
      Layout::from_boxes({4, 6}, std::vector{Box({3, 0}, {4, 6}), Box({0, 0}, {3, 6})}),
  };
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(layouts[i].fingerprint(), layouts[j].fingerprint()) << i << " and " << j;
    for (Index other : comm.gather_to_all(Index(layouts[i].fingerprint())))
      EXPECT_EQ(other, Index(layouts[i].fingerprint()));
  }
  EXPECT_EQ(layouts[0].fingerprint(), Layout(ProcessGrid{2, 1}, {Cuts{2, 2}, Cuts{6}}).fingerprint());
}

TEST(Layout, tells_cuts_from_boxes) {
  Layout const cuts(ProcessGrid{2, 1}, Indices{4, 6});
  Layout const boxes = Layout::from_boxes({4, 6}, std::vector{cuts.owned(0), cuts.owned(1)});

  ASSERT_NE(cuts.grid(), nullptr);
  EXPECT_EQ(*cuts.grid(), ProcessGrid({2, 1}));
  EXPECT_EQ(boxes.grid(), nullptr);
  EXPECT_EQ(boxes.cuts(0), nullptr);
  EXPECT_NE(to_string(cuts).find("2x1"), std::string::npos);
}

}  // namespace
