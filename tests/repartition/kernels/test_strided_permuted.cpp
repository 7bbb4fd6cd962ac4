// SPDX-License-Identifier: BSD-3-Clause
// Boxes whose axes lie in another order on the two sides, and boxes too large for the caches, against a loop over all
// elements. Elements hold their number, so that any misplaced one shows.
#include "strided_support.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <numeric>

using namespace graticule;
using detail::StridedOp;
using test::for_each_cell;
using test::offset;
using test::Side;

namespace {

/// Dense memory, the axes from the slowest to the fastest in the order given; every other axis backwards if asked for.
Side side_of(Indices const& extents, std::vector<int> const& order, bool backwards) {
  Side side{Indices::filled(extents.size(), 0)};
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    bool const turned = backwards && *axis % 2 == 0;
    side.strides[*axis] = turned ? -side.size : side.size;
    if (turned) side.first += side.size * (extents[*axis] - 1);
    side.size *= extents[*axis];
  }
  return side;
}

std::vector<std::vector<int>> orders(int ndim) {
  std::vector<int> order(std::size_t(ndim), 0);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> result;
  do result.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return result;
}

template <class T>
T numbered(Index i) {
  // Differs from its neighbors in the lowest bits and in the next ones.
  return T(double((i + i / 251) % 251 - 125));
}
template <>
std::complex<double> numbered(Index i) {
  return {double(i), -double(i)};
}

struct How {
  StridedOp op = StridedOp::copy;
  bool clear = false;
  bool streams = false;  ///< as part of more than caches hold
  Index shift = 3;       ///< elements from what is aligned
};

/// With canaries on both ends and wherever `to` has gaps.
template <class T>
class Permuted : public testing::Test {
 public:
  static void expect_moved(Indices const& extents, Side const& to_side, Side const& from_side, How const& how = {}) {
    auto const [op, clear, streams, shift] = how;
    std::vector<T> to(std::size_t(to_side.size + 2 * shift), T(77));
    std::vector<T> from(std::size_t(from_side.size));
    for (Index i = 0; i < from_side.size; ++i) from[std::size_t(i)] = numbered<T>(i);
    auto expected = to;
    auto read = from;
    for_each_cell(Box::from_extents(extents), [&](Indices const& at) {
      T& cell = expected[std::size_t(offset(at, to_side) + how.shift)];
      T const value = from[std::size_t(offset(at, from_side))];
      cell = how.op == StridedOp::copy ? value : how.op == StridedOp::negate ? T(-value) : T(cell + value);
      if (how.clear) read[std::size_t(offset(at, from_side))] = T{};
    });
    auto task = detail::make_strided(op, dtype_of<T>(), extents, to.data() + to_side.first + shift, to_side.strides,
                                     from.data() + from_side.first, from_side.strides);
    task.clear_from = clear;
    task.streams = streams;

    detail::run_strided_host(std::span(&task, 1));

    ASSERT_TRUE(to == expected) << "operation " << int(op) << " on " << to_string(extents) << ", to "
                                << to_string(to_side.strides) << ", from " << to_string(from_side.strides);
    ASSERT_TRUE(from == read) << "the cells that were read, of " << to_string(extents);
  }
};

using Types = testing::Types<std::int8_t, std::int16_t, float, double, std::complex<double>>;
TYPED_TEST_SUITE(Permuted, Types, test::TypeNames);

TYPED_TEST(Permuted, moves_every_order_of_axes_to_every_other) {
  for (Indices const& extents :
       std::vector<Indices>{{37, 71, 130}, {4, 600, 5}, {3, 9, 300}, {70, 1030}, {2, 33, 5, 66}})
    for (auto const& order : orders(extents.size()))
      for (bool const backwards : {false, true}) {
        auto const dense = side_of(extents, orders(extents.size()).front(), false);
        this->expect_moved(extents, side_of(extents, order, false), dense);
        this->expect_moved(extents, dense, side_of(extents, order, backwards), {.clear = backwards});
        if (this->HasFatalFailure()) return;
      }
}

TYPED_TEST(Permuted, negates_adds_and_clears) {
  Indices const extents{20, 67, 35};
  auto const dense = side_of(extents, {0, 1, 2}, false);
  for (auto const& order : orders(3))
    for (auto const op : {StridedOp::copy, StridedOp::negate, StridedOp::add})
      for (bool const clear : {false, true}) {
        this->expect_moved(extents, dense, side_of(extents, order, false), {.op = op, .clear = clear});
        if (this->HasFatalFailure()) return;
      }
}

// Beyond this size memory is written past the caches.
TYPED_TEST(Permuted, moves_boxes_too_large_for_the_caches) {
  Index const bytes = Index(sizeof(TypeParam));
  Indices const extents{(Index(18) << 20U) / (bytes * 257 * 130) + 1, 257, 130};
  auto const dense = side_of(extents, {0, 1, 2}, false);

  this->expect_moved(extents, side_of(extents, {2, 0, 1}, false), dense);
  this->expect_moved(extents, side_of(extents, {1, 0, 2}, false), dense);
  this->expect_moved(extents, dense, dense);
}

TYPED_TEST(Permuted, writes_whole_rows_past_the_caches_wherever_they_lie) {
  Index const line = 64 / Index(sizeof(TypeParam));
  // Rows of two lines, of one block and a bit, of several blocks, of several patches.
  for (Index const columns : {2 * line, 2 * line + 1, 5 * line - 1, 9 * line + 3, 70 * line + 5})
    for (Index const rows : {4, 33, 131})
      for (Index const gap : {Index(0), Index(1), line - 2, line})
        for (auto const& order : {std::vector{0, 2, 1}, std::vector{2, 0, 1}})
          for (bool const backwards : {false, true})
            for (Index const shift : {Index(0), Index(1), line - 1}) {
              Indices const extents{2, columns, rows};
              auto const to = side_of({2, columns + gap, rows}, order, backwards);
              this->expect_moved(extents, to, side_of(extents, {0, 1, 2}, false), {.streams = true, .shift = shift});
              if (this->HasFatalFailure()) return;
            }
}

TEST(PermutedTransform, converts_on_the_way) {
  Indices const extents{33, 45, 70};
  auto const dense = side_of(extents, {0, 1, 2}, false);
  std::vector<double> from(std::size_t(dense.size));
  for (Index i = 0; i < dense.size; ++i) from[std::size_t(i)] = double(i) + 0.25;
  for (auto const& order : orders(3)) {
    auto const side = side_of(extents, order, false);
    std::vector<float> to(from.size(), 1000.0F);
    detail::Transform const transform{{2, 0}, {0.5, 0}, false, {}, {}};
    auto const task = detail::make_transform(transform, extents, {to.data(), DType::f32, side.strides},
                                             {from.data(), DType::f64, dense.strides});

    detail::run_strided_host(std::span(&task, 1));

    for_each_cell(Box::from_extents(extents), [&](Indices const& at) {
      ASSERT_EQ(to[std::size_t(offset(at, side))], float(2 * from[std::size_t(offset(at, dense))] + 500));
    });
  }
}

}  // namespace
