// SPDX-License-Identifier: BSD-3-Clause
#include "int_array.hpp"
#include "layout/cut_moves.hpp"
#include "layout/pull.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

using namespace graticule::program;
using namespace graticule::test;

namespace {

using Random = std::mt19937_64;

std::int64_t draw(Random& random, std::int64_t lo, std::int64_t hi) {
  return std::uniform_int_distribution<std::int64_t>(lo, hi)(random);
}

// Bounds anywhere, so that some ranks own nothing.
Cut random_cut(Random& random, Shape const& shape, std::int64_t num_ranks) {
  std::int64_t const axis = draw(random, 0, static_cast<std::int64_t>(shape.size()) - 1);
  std::int64_t const extent = shape[static_cast<std::size_t>(axis)];
  std::vector<std::int64_t> periods;
  for (std::int64_t p = 1; p <= extent; ++p) {
    if (extent % p == 0) {
      periods.push_back(p);
    }
  }
  Cut cut{axis, periods[static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(periods.size()) - 1))], {0}};
  for (std::int64_t rank = 1; rank < num_ranks; ++rank) {
    cut.bounds.push_back(draw(random, 0, cut.period));
  }
  cut.bounds.push_back(cut.period);
  std::ranges::sort(cut.bounds);
  return cut;
}

// The same elements under other axes.
Shape random_view(Random& random, Shape const& shape) {
  std::int64_t rest = num_elements(shape);
  Shape view;
  while (rest > 1) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 1; d <= rest; ++d) {
      if (rest % d == 0) {
        divisors.push_back(d);
      }
    }
    std::int64_t const d =
        divisors[static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(divisors.size()) - 1))];
    if (d > 1 || draw(random, 0, 3) == 0) {
      view.push_back(d);
      rest /= d;
    }
  }
  return view.empty() ? Shape{1} : view;
}

// A tensor on virtual ranks, and the whole of it beside.
struct Sharded {
  IntArray whole;
  Cut cut;
  std::vector<IntArray> parts;

  Sharded(IntArray array, Cut of) : whole(std::move(array)), cut(std::move(of)) {
    for (std::int64_t rank = 0; rank < cut.num_ranks(); ++rank) {
      parts.push_back(part(whole, cut, rank));
    }
  }
  void expect_equal(char const* step) const {
    for (std::int64_t rank = 0; rank < cut.num_ranks(); ++rank) {
      ASSERT_EQ(parts[static_cast<std::size_t>(rank)], part(whole, cut, rank)) << step << ", rank " << rank;
    }
    ASSERT_EQ(joined(parts, cut, whole.shape), whole) << step;
  }
};

bool view(Sharded& tensor, Shape const& shape) {
  auto const cut = through_view(tensor.cut, tensor.whole.shape, shape);
  if (!cut) {
    return false;
  }
  for (std::size_t rank = 0; rank < tensor.parts.size(); ++rank) {
    tensor.parts[rank] = viewed(tensor.parts[rank], local_shape(shape, cut, static_cast<std::int64_t>(rank)));
  }
  tensor.whole = viewed(tensor.whole, shape);
  tensor.cut = *cut;
  return true;
}

void permute(Sharded& tensor, Random& random) {
  std::vector<std::int64_t> order(tensor.whole.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  for (IntArray& local : tensor.parts) {
    local = permuted(local, order);
  }
  tensor.whole = permuted(tensor.whole, order);
  tensor.cut.axis = std::ranges::find(order, tensor.cut.axis) - order.begin();
}

// Off the cut axis on the parts, on the cut axis by its table.
void roll(Sharded& tensor, Random& random) {
  std::int64_t const axis = draw(random, 0, static_cast<std::int64_t>(tensor.whole.shape.size()) - 1);
  std::int64_t const extent = tensor.whole.extent(axis);
  auto const rows = rows_of(roll_table(extent, draw(random, -extent, extent)));
  IntArray const before = tensor.whole;
  tensor.whole = taken(before, axis, rows);
  for (std::int64_t rank = 0; rank < tensor.cut.num_ranks(); ++rank) {
    IntArray& local = tensor.parts[static_cast<std::size_t>(rank)];
    if (axis != tensor.cut.axis) {
      local = taken(local, axis, rows);
      continue;
    }
    std::vector<std::int64_t> mine;
    for (std::int64_t const i : tensor.cut.owned_indices(extent, rank)) {
      mine.push_back(rows[static_cast<std::size_t>(i)]);
    }
    local = taken(before, axis, mine);
  }
}

// The cut of the indices begin, begin + step, ... < end of the cut axis, each of which stays on its rank. Nothing where
// a low digit is cut and the slice does not consist of whole periods.
std::optional<Cut> through_slice(Cut const& cut, std::int64_t extent, std::int64_t begin, std::int64_t end,
                                 std::int64_t step) {
  if (begin == 0 && end == extent && step == 1) {
    return cut;
  }
  if (cut.period != extent) {
    bool const whole = step == 1 && begin % cut.period == 0 && end % cut.period == 0 && begin < end;
    return whole ? std::optional(cut) : std::nullopt;
  }
  std::int64_t const size = begin < end ? (end - begin + step - 1) / step : 0;
  Cut result{cut.axis, size, {}};
  for (std::int64_t const bound : cut.bounds) {
    result.bounds.push_back(std::clamp<std::int64_t>((bound - begin + step - 1) / step, 0, size));
  }
  result.bounds.front() = 0;
  result.bounds.back() = size;
  return size == 0 ? std::nullopt : std::optional(result);
}

// Every index that remains stays on its rank.
void slice(Sharded& tensor, Random& random) {
  std::int64_t const axis = draw(random, 0, static_cast<std::int64_t>(tensor.whole.shape.size()) - 1);
  std::int64_t const extent = tensor.whole.extent(axis);
  std::int64_t const begin = draw(random, 0, extent - 1);
  std::int64_t const end = draw(random, begin + 1, extent);
  std::int64_t const step = draw(random, 1, 3);
  auto const rows = rows_of(slice_table(begin, end, step));
  if (axis != tensor.cut.axis) {
    for (IntArray& local : tensor.parts) {
      local = taken(local, axis, rows);
    }
    tensor.whole = taken(tensor.whole, axis, rows);
    return;
  }
  auto const cut = through_slice(tensor.cut, extent, begin, end, step);
  if (!cut) {
    return;
  }
  for (std::int64_t rank = 0; rank < cut->num_ranks(); ++rank) {
    auto const owned = tensor.cut.owned_indices(extent, rank);
    std::vector<std::int64_t> kept;
    for (std::size_t i = 0; i < owned.size(); ++i) {
      if (std::ranges::find(rows, owned[i]) != rows.end()) {
        kept.push_back(static_cast<std::int64_t>(i));
      }
    }
    IntArray& local = tensor.parts[static_cast<std::size_t>(rank)];
    local = taken(local, axis, kept);
  }
  tensor.whole = taken(tensor.whole, axis, rows);
  tensor.cut = *cut;
}

TEST(Digits, random_chains_on_parts_equal_those_on_the_whole) {
  Random random(1);
  int views = 0;
  int empty_ranks = 0;
  for (int chain = 0; chain < 600; ++chain) {
    Shape shape;
    for (std::int64_t axes = draw(random, 1, 4); axes > 0; --axes) {
      shape.push_back(draw(random, 1, 12));
    }
    Sharded tensor(counting(shape), random_cut(random, shape, draw(random, 1, 5)));
    for (int step = 0; step < 12; ++step) {
      switch (draw(random, 0, 3)) {
        case 0:
          views += view(tensor, random_view(random, tensor.whole.shape)) ? 1 : 0;
          ASSERT_NO_FATAL_FAILURE(tensor.expect_equal("view"));
          break;
        case 1:
          ASSERT_NO_FATAL_FAILURE(permute(tensor, random));
          ASSERT_NO_FATAL_FAILURE(tensor.expect_equal("permute"));
          break;
        case 2:
          roll(tensor, random);
          ASSERT_NO_FATAL_FAILURE(tensor.expect_equal("roll"));
          break;
        default: slice(tensor, random); ASSERT_NO_FATAL_FAILURE(tensor.expect_equal("slice"));
      }
      empty_ranks += std::ranges::any_of(tensor.parts, [](IntArray const& p) { return p.values.empty(); }) ? 1 : 0;
    }
  }
  EXPECT_GT(views, 300);
  EXPECT_GT(empty_ranks, 300);
}

// A view keeps a cut exactly where the owner of each flat element determines a cut of one axis of the result.
TEST(Digits, views_are_refused_only_where_no_cut_of_the_result_exists) {
  Random random(2);
  int refused = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    Shape const shape{draw(random, 1, 4), draw(random, 1, 12), draw(random, 1, 4)};
    Cut const cut = random_cut(random, shape, 2);
    Shape const to = random_view(random, shape);
    if (through_view(cut, shape, to)) {
      continue;
    }
    ++refused;
    IntArray const wanted = part(counting(shape), cut, 0);
    for (std::size_t axis = 0; axis < to.size(); ++axis) {
      for (std::int64_t period = 1; period <= to[axis]; ++period) {
        for (std::int64_t bound = 0; to[axis] % period == 0 && bound <= period; ++bound) {
          Cut const other{static_cast<std::int64_t>(axis), period, {0, bound, period}};
          EXPECT_NE(part(counting(to), other, 0).values, wanted.values) << cut.describe(shape[1]);
        }
      }
    }
  }
  EXPECT_GT(refused, 50);
}

TEST(Digits, alignment_moves_bounds_to_the_nearest_multiples) {
  Cut const cut{0, 721, {0, 181, 361, 541, 721}};

  auto const aligned = aligned_for_view(cut, {721, 8}, {103, 7, 8});

  ASSERT_TRUE(aligned);
  EXPECT_EQ(aligned->bounds, (std::vector<std::int64_t>{0, 182, 364, 539, 721}));
  EXPECT_EQ(through_view(*aligned, {721, 8}, {103, 7, 8})->bounds, (std::vector<std::int64_t>{0, 26, 52, 77, 103}));
  EXPECT_FALSE(through_view(cut, {721, 8}, {103, 7, 8}));
  EXPECT_EQ(digit_of(*aligned).stride, 7);
  EXPECT_EQ(digit_of(*aligned).size, 103);
}

TEST(Digits, of_windows_are_cut_high_or_low) {
  struct Row {
    Cut cut;
    Shape from;
    Shape to;
    Cut expected;
  };
  std::vector<Row> const rows{
      // windows of 4 rows, and the place in them
      {{1, 8, {0, 4, 8}}, {1, 8, 16}, {1, 2, 4, 16}, {1, 2, {0, 1, 2}}},
      {{1, 4, {0, 1, 4}}, {1, 8, 16}, {1, 2, 4, 16}, {2, 4, {0, 1, 4}}},
      // tokens of (latitude, longitude), and back
      {{1, 6, {0, 1, 6}}, {2, 6, 12}, {2, 72}, {1, 72, {0, 12, 72}}},
      {{1, 72, {0, 12, 72}}, {2, 72}, {2, 6, 12}, {1, 6, {0, 1, 6}}},
      // longitude, the low digit of tokens
      {{2, 12, {0, 5, 12}}, {2, 6, 12}, {2, 72}, {1, 12, {0, 5, 12}}},
      // heads, the high digit of features
      {{1, 8, {0, 4, 8}}, {72, 8}, {72, 2, 4}, {1, 2, {0, 1, 2}}},
  };
  for (Row const& row : rows) {
    EXPECT_EQ(through_view(row.cut, row.from, row.to), row.expected) << row.expected.describe(0);
  }
}

TEST(Digits, common_extent_counts_indices_owned_under_both_cuts) {
  Random random(3);
  for (int trial = 0; trial < 500; ++trial) {
    Shape const shape{draw(random, 1, 36)};
    Cut const first = random_cut(random, shape, 3);
    Cut const second = random_cut(random, shape, 3);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      auto const a = first.owned_indices(shape[0], rank);
      auto const b = second.owned_indices(shape[0], rank);
      std::vector<std::int64_t> both;
      std::ranges::set_intersection(a, b, std::back_inserter(both));
      EXPECT_EQ(common_extent(first, second, shape[0], rank), static_cast<std::int64_t>(both.size()));
      EXPECT_EQ(first.owned_extent(shape[0], rank), static_cast<std::int64_t>(a.size()));
    }
  }
}

TEST(Digits, balanced_cuts_differ_by_one_unit) {
  EXPECT_EQ(Cut::balanced(2, 721, 4).bounds, (std::vector<std::int64_t>{0, 181, 361, 541, 721}));
  EXPECT_EQ(Cut::balanced(2, 721, 4, 103).bounds, (std::vector<std::int64_t>{0, 206, 412, 618, 721}));
  EXPECT_EQ(Cut::balanced(0, 2, 5).bounds, (std::vector<std::int64_t>{0, 1, 2, 2, 2, 2}));
}

TEST(Pull, tables_of_padding_equal_pytorchs) {
  auto const rows = [](PadMode mode) { return rows_of(pad_table(4, 2, 3, mode)); };
  EXPECT_EQ(rows(PadMode::constant), (std::vector<std::int64_t>{-1, -1, 0, 1, 2, 3, -1, -1, -1}));
  EXPECT_EQ(rows(PadMode::reflect), (std::vector<std::int64_t>{2, 1, 0, 1, 2, 3, 2, 1, 0}));
  EXPECT_EQ(rows(PadMode::replicate), (std::vector<std::int64_t>{0, 0, 0, 1, 2, 3, 3, 3, 3}));
  EXPECT_EQ(rows(PadMode::circular), (std::vector<std::int64_t>{2, 3, 0, 1, 2, 3, 0, 1, 2}));
  EXPECT_EQ(rows_of(pad_table(4, -1, -2, PadMode::constant)), (std::vector<std::int64_t>{1}));
}

// PyTorch crops first, and circular padding goes round what is left.
TEST(Pull, tables_of_padding_and_cropping_at_once_equal_pytorchs) {
  auto const rows = [](std::int64_t lower, std::int64_t upper, PadMode mode) {
    return rows_of(pad_table(4, lower, upper, mode));
  };
  EXPECT_EQ(rows(-1, 2, PadMode::circular), (std::vector<std::int64_t>{1, 2, 3, 1, 2}));
  EXPECT_EQ(rows(2, -1, PadMode::circular), (std::vector<std::int64_t>{1, 2, 0, 1, 2}));
  EXPECT_EQ(rows(-1, 2, PadMode::reflect), (std::vector<std::int64_t>{1, 2, 3, 2, 1}));
  EXPECT_EQ(rows(2, -1, PadMode::reflect), (std::vector<std::int64_t>{2, 1, 0, 1, 2}));
  EXPECT_EQ(rows(-1, 2, PadMode::replicate), (std::vector<std::int64_t>{1, 2, 3, 3, 3}));
  EXPECT_EQ(rows(2, -1, PadMode::constant), (std::vector<std::int64_t>{-1, -1, 0, 1, 2}));
}

TEST(Pull, tables_of_rolls_flips_and_joins) {
  EXPECT_EQ(rows_of(roll_table(4, 1)), (std::vector<std::int64_t>{3, 0, 1, 2}));
  EXPECT_EQ(rows_of(roll_table(4, -6)), (std::vector<std::int64_t>{2, 3, 0, 1}));
  EXPECT_EQ(rows_of(flip_table(3)), (std::vector<std::int64_t>{2, 1, 0}));
  EXPECT_EQ(rows_of(slice_table(1, 6, 2)), (std::vector<std::int64_t>{1, 3, 5}));
  EXPECT_EQ(cat_table({1, 2}), (PullTable{{0, 0}, {1, 0}, {1, 1}}));
}

}  // namespace
