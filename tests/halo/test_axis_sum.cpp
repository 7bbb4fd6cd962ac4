// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/axis_sum.hpp>

#include "expect_error.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::draw;
using test::for_each_cell;
using test::MemoryShape;
using test::Random;
using test::rule_of;
using test::TestField;

namespace {

/// The exact sum, rounded to nearest even. Source: J. R. Shewchuk, "Adaptive precision floating-point arithmetic",
/// 1997; as in Python's math.fsum. Finite terms whose partial sums do not overflow.
double exact_by_expansion(std::vector<double> const& terms) {
  std::vector<double> partials;
  for (double x : terms) {
    std::size_t kept = 0;
    for (double y : partials) {
      if (std::abs(x) < std::abs(y)) std::swap(x, y);
      double const high = x + y;
      double const low = y - (high - x);
      if (low != 0) partials[kept++] = low;
      x = high;
    }
    partials.resize(kept);
    partials.push_back(x);
  }
  if (partials.empty()) return 0;
  double high = partials.back();
  partials.pop_back();
  double low = 0;
  while (!partials.empty()) {
    double const x = high;
    double const y = partials.back();
    partials.pop_back();
    high = x + y;
    low = y - (high - x);
    if (low != 0) break;
  }
  // Half way between two numbers, the rest decides.
  if (!partials.empty() && ((low < 0) == (partials.back() < 0)) && low != 0 && partials.back() != 0) {
    double const doubled = low * 2;
    double const moved = high + doubled;
    if (doubled == moved - high) high = moved;
  }
  return high + 0.0;
}

/// The same for floats whose sum fits 127 bits of units of 2^-90.
float exact_by_integers(std::vector<float> const& terms) {
  __extension__ using Wide = __int128;
  Wide sum = 0;
  for (float const x : terms) {
    int exponent = 0;
    auto const mantissa = Wide(std::int64_t(std::ldexp(std::frexp(x, &exponent), 24)));
    sum += mantissa * (Wide(1) << (exponent - 24 + 90));
  }
  return std::ldexp(float(sum), -90);
}

/// Numbers of any sign and very different size, whose sums cancel.
template <class T>
T rough(Indices const& batch, Indices const& cell) {
  auto const bits = bits_of<std::uint64_t>(batch, cell, 5);
  double const size = sizeof(T) == 8 ? double(bits % 121) - 60 : double(bits % 41) - 20;
  auto const number = T(std::ldexp(double(std::int64_t(bits)) * 0x1p-63, int(size)));
  // Every third number is nearly the opposite of the one before.
  if (cell[cell.size() - 1] % 3 != 1) return number;
  auto before = cell;
  --before[cell.size() - 1];
  return -std::nextafter(rough<T>(batch, before), T(0));
}

template <class T>
T expected_sum(std::vector<T> const& terms) {
  if constexpr (sizeof(T) == 8)
    return exact_by_expansion(terms);
  else
    return exact_by_integers(terms);
}

/// All cells of `region` in the ring through `cell`.
template <class T, class Value>
std::vector<T> ring_of(Indices const& batch, Indices cell, Box const& region, int axis, Value&& value) {
  std::vector<T> terms;
  for (Index i = region.lo(axis); i < region.hi(axis); ++i) {
    cell[axis] = i;
    terms.push_back(value(batch, cell));
  }
  return terms;
}

template <class T>
bool same_bits(T a, T b) {
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class T>
void expect_exact_sums(Random& random, Comm const& comm, Layout const& layout, int axis,
                       AxisSumOptions const& options) {
  AxisSumPlan const plan(comm, layout, axis, options);
  Indices const batch = test::random_extents(random, int(draw(random, 0, 2)), 3);
  auto const shape = [&] { return MemoryShape::random(random, layout.ndim(), batch.size()); };
  TestField<T> cells(plan.cells(), batch, shape(), std::numeric_limits<T>::quiet_NaN());
  cells.set(plan.cells(), [](auto const& b, auto const& cell) { return rough<T>(b, cell); });
  TestField<T> sums(plan.sums(), batch, shape(), T(-7));
  auto const region = options.region.value_or(layout.global());
  auto expected = sums;
  expected.set(plan.sums(), [&](auto const& b, auto const& cell) {
    T const sum = expected_sum(ring_of<T>(b, cell, region, axis, rough<T>));
    return options.scale == AxisSumScale::mean ? T(double(sum) / double(region.extent(axis))) : sum;
  });

  plan.apply(cells.view(), sums.view());

  EXPECT_TRUE(sums.holds(expected)) << to_string(layout) << " axis " << axis;
}

// Every rank compares with the sum of the whole ring: so all splits give the same bits.
TEST(AxisSumPlan, sums_are_exact_whatever_the_split) {
  auto const comm = Comm::world();
  Random random(std::uint64_t(300 + comm.num_ranks()));
  int const num_trials = comm.num_ranks() == 1 ? 40 : 12;
  for (int trial = 0; trial < num_trials && !HasFailure(); ++trial) {
    int const ndim = int(draw(random, 1, 3));
    auto extents = test::random_extents(random, ndim, 6);
    int const axis = int(draw(random, 0, ndim - 1));
    extents[axis] = draw(random, 1, 40);
    auto const layout = test::random_layout(random, comm.num_ranks(), extents);
    AxisSumOptions options;
    if (draw(random, 0, 2) == 0) options.scale = AxisSumScale::mean;
    if (draw(random, 0, 2) == 0) {
      auto lo = extents;
      auto hi = extents;
      for (int a = 0; a < ndim; ++a) {
        lo[a] = draw(random, 0, extents[a] - 1);
        hi[a] = draw(random, lo[a] + 1, extents[a]);
      }
      options.region = Box(lo, hi);
    }
    expect_exact_sums<double>(random, comm, layout, axis, options);
    expect_exact_sums<float>(random, comm, layout, axis, options);
  }
}

/// Terms and their sum; the terms are dealt to columns, the rest of which is zero.
template <class T>
struct Known {
  std::vector<T> terms;
  T sum;
};

template <class T>
void expect_known_sums(Comm const& comm, std::vector<Known<T>> const& rows) {
  Random random(83);
  Index const columns = 7;
  Indices const extents{Index(rows.size()), columns};
  Index const n = comm.num_ranks();
  for (Layout const& layout :
       {Layout(ProcessGrid{1, n}, extents), Layout(ProcessGrid{n, 1}, extents),
        Layout(ProcessGrid{1, n}, {balanced_cuts(extents[0], 1), test::random_cuts(random, columns, n)})}) {
    AxisSumPlan const plan(comm, layout, 1);
    TestField<T> cells(plan.cells(), {}, MemoryShape::dense(2, 0), T(0));
    cells.set(plan.cells(), [&](auto const&, Indices const& cell) {
      auto const& terms = rows[std::size_t(cell[0])].terms;
      // Dealt backwards in every second row.
      auto const place = std::size_t(cell[0] % 2 == 0 ? cell[1] : columns - 1 - cell[1]);
      return place < terms.size() ? terms[place] : T(0);
    });
    TestField<T> sums(plan.sums(), {}, MemoryShape::dense(2, 0), T(-7));

    plan.apply(cells.view(), sums.view());

    for_each_cell(plan.sums(), [&](Indices const& cell) {
      auto const& known = rows[std::size_t(cell[0])];
      EXPECT_TRUE(same_bits(sums.at({}, cell), known.sum))
          << "row " << cell[0] << " is " << sums.at({}, cell) << ", not " << known.sum << " on " << to_string(layout);
    });
  }
}

template <class T>
std::vector<Known<T>> known_sums() {
  using Limits = std::numeric_limits<T>;
  T const max = Limits::max();
  T const tiny = Limits::denorm_min();
  T const normal = Limits::min();
  T const inf = Limits::infinity();
  T const nan = Limits::quiet_NaN();
  T const ulp = Limits::epsilon();
  T const top = std::ldexp(T(1), Limits::max_exponent - Limits::digits);  // of the largest number's last place
  return {
      {{}, 0},
      {{T(-0.0), T(-0.0)}, 0},
      {std::vector<T>(7, T(-0.0)), T(-0.0)},
      {{-1, T(-0.0), 1, T(-0.0), T(-0.0), T(-0.0), T(-0.0)}, 0},
      {{1, -1}, 0},
      // Partial sums that overflow do no harm; the result may.
      {{max, max, -max}, max},
      {{-max, max, -max, -max, max}, -max},
      {{max, max}, inf},
      {{-max, -max, tiny}, -inf},
      {{max, top / 2}, inf},
      {{max, top / 2, -tiny}, max},
      {{-max, -top / 4}, -max},
      // Not finite.
      {{inf, 1, -max}, inf},
      {{-inf, max, max}, -inf},
      {{inf, inf, inf, inf, inf, inf, inf}, inf},
      {{inf, -inf}, nan},
      {{nan, 1}, nan},
      {{1, nan, inf}, nan},
      {{nan, nan, nan, nan, nan, nan, nan}, nan},
      // Below the normal range.
      {{tiny, tiny, tiny}, 3 * tiny},
      {{normal, -tiny}, normal - tiny},
      {{normal - tiny, tiny}, normal},
      {{-normal, tiny, tiny}, -normal + 2 * tiny},
      {{max, tiny, -max}, tiny},
      // Half way: to even, unless anything lies beyond.
      {{1, ulp / 2}, 1},
      {{1, ulp / 2, tiny}, 1 + ulp},
      {{1, ulp / 2, -tiny}, 1},
      {{1, ulp, ulp / 2}, 1 + 2 * ulp},
      {{1, ulp, ulp / 2, -tiny}, 1 + ulp},
      {{-1, -ulp / 2}, -1},
      {{-1, -ulp / 2, -tiny}, -1 - ulp},
      {{2 - ulp, ulp / 2}, 2},
      {{2 - ulp, ulp / 4, ulp / 8}, 2 - ulp},
      {{max / 2, 1, -max / 2}, 1},
      {{T(1) / 3, T(1) / 3, T(1) / 3}, 1},
  };
}

TEST(AxisSumPlan, sums_overflow_underflow_and_round_as_they_must) {
  auto const comm = Comm::world();
  expect_known_sums(comm, known_sums<double>());
  auto singles = known_sums<float>();
  // Three times the float next to a third is not half way from 1.
  singles.back().sum = float(double(1.0F / 3) * 3);
  expect_known_sums(comm, singles);
}

// More terms than are added between two carries, of one sign, and as large as a term can be in its word.
TEST(AxisSumPlan, sums_of_many_large_terms_carry) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Index const columns = 5000;
  AxisSumPlan const plan(comm, Layout(ProcessGrid{1, n}, Indices{2, columns}), 1);
  double const big = 0x1.fffffffffffffp+945;
  TestField<double> cells(plan.cells(), {}, MemoryShape::dense(2, 0), 0.0);
  cells.set(plan.cells(), [&](auto const&, Indices const& cell) { return cell[0] == 0 ? big : -big; });
  TestField<double> sums(plan.sums(), {}, MemoryShape::dense(2, 0), 0.0);

  plan.apply(cells.view(), sums.view());

  auto const exact = double(5000.0L * static_cast<long double>(big));
  for_each_cell(plan.sums(), [&](Indices const& cell) {
    EXPECT_EQ(sums.at({}, cell), cell[0] == 0 ? exact : -exact) << to_string(cell);
  });
}

TEST(AxisSumPlan, sums_may_be_fetched_later) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  AxisSumPlan const plan(comm, Layout(ProcessGrid{1, n}, Indices{3, 9}), 1);
  TestField<double> cells(plan.cells(), {2}, MemoryShape::dense(2, 1), 0.0);
  cells.set(plan.cells(), [](auto const& b, auto const& cell) { return rough<double>(b, cell); });
  TestField<double> sums(plan.sums(), {2}, MemoryShape::dense(2, 1), -7);
  auto expected = sums;
  expected.set(plan.sums(), [&](auto const& b, auto const& cell) {
    return exact_by_expansion(ring_of<double>(b, cell, Box({0, 0}, {3, 9}), 1, rough<double>));
  });
  for (int repeat = 0; repeat < 3; ++repeat) {
    auto const before = cells;
    auto pending = plan.start(cells.view(), sums.view());
    cells.set(plan.cells(), [](auto const&, auto const&) { return 1e300; });

    EXPECT_EQ(rule_of([&] { plan.apply(cells.view(), sums.view()); }), "WrongState");
    if (repeat == 1) {
      auto const ended_by_destructor = std::move(pending);
    } else {
      pending.wait();
    }
    pending.wait();

    EXPECT_TRUE(sums.holds(expected));
    cells = before;
  }
}

// Who shares a ring with the rank that refuses is told, in whatever round; the next calls are right.
TEST(AxisSumPlan, a_wrong_view_on_one_rank_ends_the_call_on_all_ranks_of_the_ring) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  if (n == 1) GTEST_SKIP() << "no peer";
  // Every rank adds up some of the five rings.
  AxisSumPlan const plan(comm, Layout(ProcessGrid{1, n}, Indices{5, 2 * n}), 1);
  for (int refusing = 0; refusing < comm.num_ranks(); ++refusing) {
    TestField<float> cells(plan.cells(), {}, MemoryShape::dense(2, 0), 0.5F);
    TestField<float> sums(plan.sums(), {}, MemoryShape::dense(2, 0), -7);
    auto view = cells.view();
    if (comm.rank() == refusing) ++view.extents[0];
    auto const told = comm.rank() == refusing ? "FieldMismatch" : "PeerRefused";

    EXPECT_EQ(rule_of([&] { plan.apply(view, sums.view()); }), told);
    EXPECT_EQ(rule_of([&] { plan.apply_adjoint(view, sums.view(), Cotangents::of_each_rank); }), told);

    cells.set(plan.cells(), [](auto const&, auto const&) { return 0.5F; });
    plan.apply(cells.view(), sums.view());
    for_each_cell(plan.sums(), [&](Indices const& cell) { EXPECT_EQ(sums.at({}, cell), float(n)); });
  }
}

TEST(AreaSum, refuses_on_all_ranks_what_is_wrong_on_one) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  bool const odd = comm.rank() == comm.num_ranks() - 1;
  AreaSum const sum(comm, Layout(ProcessGrid{n, 1}, Indices{n, 4}), 1, 0, std::vector<double>(std::size_t(n), 1.0));
  std::vector<double> memory(16, 1.0);
  auto wrong = field_view(memory.data(), {1, 4}, 2);
  if (odd) wrong.dtype = DType::i64;

  EXPECT_EQ(rule_of([&] { (void)sum.apply(wrong); }), "WrongType");
  if (n > 1) {
    Indices const extents{odd ? 3 : 2, 1, 4};
    EXPECT_EQ(rule_of([&] { (void)sum.apply(field_view(memory.data(), extents, 2)); }), "FieldMismatch");
  }
  EXPECT_EQ(sum.apply(field_view(memory.data(), {1, 4}, 2)), std::vector<double>{4.0 * double(n)});
}

TEST(AxisSumPlan, adds_several_fields_of_different_type_in_one_call) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  AxisSumPlan const plan(comm, Layout(ProcessGrid{1, n}, Indices{3, 9}), 1);
  auto const make = [&]<class T>(T*, Indices const& batch) {
    TestField<T> cells(plan.cells(), batch, MemoryShape::dense(2, batch.size()), T(0));
    cells.set(plan.cells(), [](auto const& b, auto const& cell) { return rough<T>(b, cell); });
    return cells;
  };
  auto wide = make(static_cast<double*>(nullptr), {2});
  auto narrow = make(static_cast<float*>(nullptr), {3, 2});
  TestField<double> wide_sums(plan.sums(), {2}, MemoryShape::dense(2, 1), -7);
  TestField<float> narrow_sums(plan.sums(), {3, 2}, MemoryShape::dense(2, 2), -7);

  for (int repeat = 0; repeat < 2; ++repeat)
    plan.apply(std::vector<AxisSumField>{{wide.view(), wide_sums.view()}, {narrow.view(), narrow_sums.view()}});

  wide_sums.for_each(plan.sums(), [&](auto const& b, Indices const& cell) {
    auto const terms = ring_of<double>(b, cell, Box({0, 0}, {3, 9}), 1, rough<double>);
    EXPECT_EQ(wide_sums.at(b, cell), exact_by_expansion(terms));
  });
  narrow_sums.for_each(plan.sums(), [&](auto const& b, Indices const& cell) {
    auto const terms = ring_of<float>(b, cell, Box({0, 0}, {3, 9}), 1, rough<float>);
    EXPECT_EQ(narrow_sums.at(b, cell), exact_by_integers(terms));
  });
}

// The rows at the poles only: other rings have no sum, and ranks without such rows nothing to give.
TEST(AxisSumPlan, of_a_region_covers_its_rings_only) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n, 1}, Indices{5, 8});
  AxisSumPlan const plan(comm, layout, 1, {AxisSumMethod::exact, AxisSumScale::mean, Box({4, 0}, {5, 8})});
  bool const last = !layout.owned(comm.rank()).empty() && layout.owned(comm.rank()).hi(0) == 5;
  ASSERT_EQ(plan.sums().num_cells(), last ? 1 : 0);
  TestField<double> cells(plan.cells(), {}, MemoryShape::dense(2, 0), 0.0);
  cells.set(plan.cells(), [](auto const&, Indices const& cell) { return double(cell[0] * 100 + cell[1]); });
  TestField<double> sums(plan.sums(), {}, MemoryShape::dense(2, 0), -7);

  plan.apply(cells.view(), sums.view());

  EXPECT_EQ(last ? sums.at({}, {4, 0}) : 403.5, 403.5);
}

TEST(AxisSumPlan, fast_sums_of_a_rank_add_cells_in_their_order) {
  constexpr Index num_rows = 19;
  constexpr Index num_columns = 37;
  Random random(5);
  std::vector<float> cells(std::size_t(num_rows * num_columns));
  for (auto& cell : cells) cell = float(draw(random, -1000, 1000)) / 7;
  for (int const axis : {0, 1}) {
    AxisSumPlan const plan(Comm(MPI_COMM_SELF), Layout(ProcessGrid{1, 1}, Indices{num_rows, num_columns}), axis,
                           {.how = AxisSumMethod::fast});
    Index const num_sums = axis == 0 ? num_columns : num_rows;
    std::vector<float> sums(std::size_t(num_sums), 0);

    plan.apply(field_view(cells.data(), {num_rows, num_columns}, 2),
               field_view(sums.data(), axis == 0 ? Indices{1, num_columns} : Indices{num_rows, 1}, 2));

    for (Index s = 0; s < num_sums; ++s) {
      double expected = 0;
      for (Index i = 0; i < (axis == 0 ? num_rows : num_columns); ++i)
        expected += double(cells[std::size_t(axis == 0 ? i * num_columns + s : s * num_columns + i)]);
      EXPECT_EQ(sums[std::size_t(s)], float(expected)) << "axis " << axis << ", sum " << s;
    }
  }
}

TEST(AxisSumPlan, fast_sums_are_sums_too) {
  auto const comm = Comm::world();
  Random random(87);
  for (int trial = 0; trial < 10; ++trial) {
    Indices const extents{draw(random, 1, 5), draw(random, 1, 30)};
    auto const layout = test::random_layout(random, comm.num_ranks(), extents);
    AxisSumPlan const plan(comm, layout, 1, {.how = AxisSumMethod::fast});
    TestField<float> cells(plan.cells(), {2}, MemoryShape::random(random, 2, 1), 0.0F);
    auto const value = [](auto const& b, auto const& cell) { return float(bits_of<std::int16_t>(b, cell)); };
    cells.set(plan.cells(), value);
    TestField<float> sums(plan.sums(), {2}, MemoryShape::random(random, 2, 1), -7);

    plan.apply(cells.view(), sums.view());

    sums.for_each(plan.sums(), [&](auto const& b, Indices const& cell) {
      EXPECT_EQ(sums.at(b, cell), exact_by_integers(ring_of<float>(b, cell, Box::from_extents(extents), 1, value)));
    });
  }
}

double cotangent(int rank, Indices const& batch, Indices const& cell) {
  return double(bits_of<std::int16_t>(batch, cell, std::uint64_t(rank) + 9));
}

// <Sx, y> = <x, S'y> over the copies of all ranks, in integers.
TEST(AxisSumPlan, adjoint_of_cotangents_of_each_rank_passes_the_dot_test_exactly) {
  auto const comm = Comm::world();
  Random random(88);
  for (int trial = 0; trial < 10; ++trial)
    for (AxisSumMethod const how : {AxisSumMethod::exact, AxisSumMethod::fast}) {
      auto const extents = test::random_extents(random, 3, 6);
      int const axis = int(draw(random, 0, 2));
      auto const layout = test::random_layout(random, comm.num_ranks(), extents);
      AxisSumOptions options{.how = how};
      if (trial % 2 == 0) options.region = Box({0, 0, 0}, {extents[0], (extents[1] + 1) / 2, extents[2]});
      AxisSumPlan const plan(comm, layout, axis, options);
      auto const shape = MemoryShape::random(random, 3, 1);
      TestField<double> x(plan.cells(), {2}, shape, 0.0);
      x.set(plan.cells(), [](auto const& b, auto const& cell) { return double(bits_of<std::int16_t>(b, cell)); });
      TestField<double> sx(plan.sums(), {2}, shape, 0.0);
      auto y = sx;
      y.set(plan.sums(), [&](auto const& b, auto const& cell) { return cotangent(comm.rank(), b, cell); });
      TestField<double> sty(plan.cells(), {2}, shape, 0.0);

      plan.apply(x.view(), sx.view());
      plan.apply_adjoint(sty.view(), y.view(), Cotangents::of_each_rank);

      std::array<double, 2> products{0, 0};
      y.for_each(plan.sums(), [&](auto const& b, auto const& c) { products[0] += sx.at(b, c) * y.at(b, c); });
      x.for_each(plan.cells(), [&](auto const& b, auto const& c) { products[1] += x.at(b, c) * sty.at(b, c); });
      comm.sum(products);
      ASSERT_EQ(products[0], products[1]) << to_string(layout);
    }
}

TEST(AxisSumPlan, adjoint_of_a_replicated_cotangent_adds_it_to_each_cell) {
  auto const comm = Comm::world();
  Random random(89);
  for (AxisSumScale const scale : {AxisSumScale::sum, AxisSumScale::mean}) {
    Indices const extents{4, 10};
    auto const layout = test::random_layout(random, comm.num_ranks(), extents);
    AxisSumPlan const plan(comm, layout, 1, {.scale = scale});
    TestField<float> cells(plan.cells(), {3}, MemoryShape::random(random, 2, 1), 1.0F);
    TestField<float> y(plan.sums(), {3}, MemoryShape::random(random, 2, 1), 0.0F);
    y.set(plan.sums(), [](auto const& b, auto const& cell) { return float(cotangent(0, b, cell)); });
    auto expected = cells;
    expected.set(plan.cells(), [&](auto const& b, auto const& cell) {
      auto const g = cotangent(0, b, {cell[0], 0});
      return 1.0F + float(scale == AxisSumScale::mean ? g / 10 : g);
    });

    plan.apply_adjoint(cells.view(), y.view(), Cotangents::replicated);

    EXPECT_TRUE(cells.holds(expected));
  }
}

// The cotangents of a ring's ranks are added exactly: the same bits for every split into the same number of ranks.
TEST(AxisSumPlan, adjoint_sums_cotangents_exactly) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  AxisSumPlan const plan(comm, Layout(ProcessGrid{1, n}, Indices{3, 2 * n}), 1, {.scale = AxisSumScale::mean});
  TestField<double> cells(plan.cells(), {}, MemoryShape::dense(2, 0), 0.0);
  TestField<double> y(plan.sums(), {}, MemoryShape::dense(2, 0), 0.0);
  auto const value = [](Index row, int rank) { return rough<double>({}, {row, Index(rank)}); };
  y.set(plan.sums(), [&](auto const&, auto const& cell) { return value(cell[0], comm.rank()); });

  plan.apply_adjoint(cells.view(), y.view(), Cotangents::of_each_rank);

  for_each_cell(plan.cells(), [&](Indices const& cell) {
    std::vector<double> terms;
    for (int r = 0; r < n; ++r) terms.push_back(value(cell[0], r));
    EXPECT_EQ(cells.at({}, cell), exact_by_expansion(terms) / double(2 * n)) << to_string(cell);
  });
}

TEST(AxisSumPlan, refuses_what_does_not_fit) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n, 1}, Indices{2 * n, 4});
  auto const rule = [&](int axis, AxisSumOptions const& options = {}) {
    return rule_of([&] { AxisSumPlan(comm, layout, axis, options); });
  };
  EXPECT_EQ(rule(2), "BadAxis");
  EXPECT_EQ(rule(-1), "BadAxis");
  EXPECT_EQ(rule(1, {.region = Box({0, 0}, {1, 5})}), "OutOfRange");
  EXPECT_EQ(rule(1, {.region = Box({0}, {1})}), "OutOfRange");
  if (n > 1) {
    EXPECT_EQ(rule(comm.rank() == 0 ? 0 : 1), "ArgumentDisagreement");
    EXPECT_EQ(rule(1, {.how = comm.rank() == 0 ? AxisSumMethod::fast : AxisSumMethod::exact}), "ArgumentDisagreement");
  }

  AxisSumPlan const plan(comm, layout, 1);
  std::vector<double> cells(8, 0.0);
  std::vector<double> sums(2, 0.0);
  std::vector<float> narrow(2, 0.0F);
  std::vector<std::int32_t> integers(8, 0);
  auto const call = [&](FieldView const& from, FieldView const& to) { return rule_of([&] { plan.apply(from, to); }); };
  auto const good = field_view(cells.data(), {2, 4}, 2);
  auto const good_sums = field_view(sums.data(), {2, 1}, 2);
  EXPECT_EQ(call(good, field_view(sums.data(), {2}, 1)), "FieldMismatch");
  EXPECT_EQ(call(good, field_view(sums.data(), {1, 2, 1}, 2)), "FieldMismatch");
  EXPECT_EQ(call(good, field_view(narrow.data(), {2, 1}, 2)), "FieldMismatch");
  EXPECT_EQ(call(field_view(cells.data(), {4, 2}, 2), good_sums), "FieldMismatch");
  EXPECT_EQ(call(field_view(integers.data(), {2, 4}, 2), good_sums), "WrongType");
  EXPECT_EQ(call(good, good_sums), "nothing was thrown");
}

double weight_of(Index row) { return std::cos(0.3 * double(row) - 1); }

std::vector<double> weights_of(Index rows) {
  std::vector<double> weights;
  for (Index row = 0; row < rows; ++row) weights.push_back(weight_of(row));
  return weights;
}

template <class T>
double area_sum_by_rows(Indices const& batch, Indices const& extents) {
  std::vector<double> products;
  for_each_cell(Box({0, 0, 0}, {extents[0], extents[1], 1}), [&](Indices const& first) {
    std::vector<double> ring;
    for (T const value : ring_of<T>(batch, first, Box::from_extents(extents), 2, rough<T>)) ring.push_back(value);
    products.push_back(weight_of(first[1]) * exact_by_expansion(ring));
  });
  return exact_by_expansion(products);
}

// Axes (level, latitude, longitude); levels are added too.
TEST(AreaSum, has_the_same_bits_for_every_split) {
  auto const comm = Comm::world();
  Random random(std::uint64_t(400 + comm.num_ranks()));
  for (int trial = 0; trial < 10; ++trial) {
    Indices const extents{draw(random, 1, 3), draw(random, 1, 6), draw(random, 1, 20)};
    auto const layout = test::random_layout(random, comm.num_ranks(), extents);
    auto const weights = weights_of(extents[1]);
    AreaSum const sum(comm, layout, 2, 1, weights);
    AreaSum const mean(comm, layout, 2, 1, weights, AxisSumScale::mean);
    auto const check = [&]<class T>(T*) {
      TestField<T> cells(layout.owned(comm.rank()), {2}, MemoryShape::random(random, 3, 1), T(0));
      cells.set(cells.cover(), [](auto const& b, auto const& cell) { return rough<T>(b, cell); });

      auto const sums = sum.apply(cells.view());
      auto const means = mean.apply(cells.view());

      ASSERT_EQ(sums.size(), 2U);
      for (Index b = 0; b < 2; ++b) {
        double const expected = area_sum_by_rows<T>({b}, extents);
        double const area = exact_by_expansion(weights) * double(extents[0] * extents[2]);
        EXPECT_EQ(sums[std::size_t(b)], expected) << to_string(layout);
        EXPECT_EQ(means[std::size_t(b)], expected / area) << to_string(layout);
      }
    };
    check(static_cast<double*>(nullptr));
    check(static_cast<float*>(nullptr));
  }
}

TEST(AreaSum, adjoint_adds_the_weighted_cotangent) {
  auto const comm = Comm::world();
  Random random(91);
  Indices const extents{5, 8};
  auto const layout = test::random_layout(random, comm.num_ranks(), extents);
  AreaSum const mean(comm, layout, 1, 0, weights_of(5), AxisSumScale::mean);
  TestField<double> cells(layout.owned(comm.rank()), {2}, MemoryShape::random(random, 2, 1), 3.0);
  double const area = exact_by_expansion(weights_of(5)) * 8;
  auto expected = cells;
  expected.set(cells.cover(), [&](auto const& b, auto const& cell) {
    return 3.0 + weight_of(cell[0]) * ((b[0] == 0 ? 2.0 : -5.0) / area);
  });

  mean.apply_adjoint(cells.view(), std::array{2.0, -5.0});

  EXPECT_TRUE(cells.holds(expected));
}

TEST(AreaSum, is_infinite_or_no_number_where_a_cell_is) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const layout(ProcessGrid{n, 1}, Indices{n + 1, 4});
  AreaSum const sum(comm, layout, 1, 0, std::vector<double>(std::size_t(n + 1), 0.5));
  for (double const special : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    TestField<float> cells(layout.owned(comm.rank()), {}, MemoryShape::dense(2, 0), 1.0F);
    cells.set(cells.cover(), [&](auto const&, auto const& cell) {
      return cell == Indices({n, 2}) ? float(special) : 1.0F;
    });

    EXPECT_TRUE(same_bits(sum.apply(cells.view()).at(0), special));
  }
}

TEST(AreaSum, refuses_what_does_not_fit) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{6, 4});
  auto const rule = [&](int sum_axis, int row_axis, std::vector<double> const& weights) {
    return rule_of([&] { AreaSum(comm, layout, sum_axis, row_axis, weights); });
  };
  std::vector<double> const six(6, 1.0);
  auto other = six;
  other[0] = comm.rank();

  EXPECT_EQ(rule(1, 1, six), "BadAxis");
  EXPECT_EQ(rule(1, 2, six), "BadAxis");
  EXPECT_EQ(rule(1, 0, std::vector<double>(5, 1.0)), "ShapeMismatch");
  EXPECT_EQ(rule(1, 0, other), comm.num_ranks() == 1 ? "nothing was thrown" : "ArgumentDisagreement");
  other[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(rule(1, 0, other), (test::ErrorWith{"NotFinite", "row 0"}));
  EXPECT_EQ(rule_of([&] { AreaSum(comm, layout, 1, 0, std::vector<double>(6, 0.0), AxisSumScale::mean); }),
            "TooFewValues");
  AreaSum const sum(comm, layout, 1, 0, six);
  std::vector<double> cells(24, 0.0);
  auto view = field_view(cells.data(), layout.owned(comm.rank()).extents(), 2);
  EXPECT_EQ(rule_of([&] { sum.apply_adjoint(view, std::array{1.0, 2.0}); }), "FieldMismatch");
}

}  // namespace
