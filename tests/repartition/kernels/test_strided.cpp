// SPDX-License-Identifier: BSD-3-Clause
// The kernels for host and device memory against a loop over all elements. Where the device space works on host memory,
// both run here.
#include <graticule/repartition/detail/strided.hpp>

#include "strided_support.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

using namespace graticule;
using detail::StridedOp;
using detail::StridedTask;
using test::draw;
using test::for_each_cell;
using test::Format;
using test::formats;
using test::nearest;
using test::offset;
using test::Random;
using test::random_side;
using test::Runner;
using test::runners;
using test::Side;
using test::value_of;

namespace {

template <class T>
T apply(StridedOp op, T to, T from, double value) {
  switch (op) {
    case StridedOp::copy: return from;
    case StridedOp::negate: return T(-from);
    case StridedOp::add: return T(to + from);
    case StridedOp::subtract: return T(to - from);
    case StridedOp::fill: return T(value);
    case StridedOp::transform: break;
  }
  return to;
}

template <class T>
T random_value(Random& random) {
  if constexpr (std::is_floating_point_v<T>)
    return T(draw(random, -50, 50));
  else if constexpr (std::is_integral_v<T> && sizeof(T) >= 4)
    return T(draw(random, -10000, 10000));
  else if constexpr (std::is_integral_v<T>)
    return T(random());
  else
    return T(typename T::value_type(draw(random, -50, 50)), typename T::value_type(draw(random, -50, 50)));
}

template <class T>
class Strided : public testing::Test {};

using Types = testing::Types<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double,
                             std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Strided, Types, test::TypeNames);

template <class T>
void expect_as_by_loop(Random& random, Runner run, StridedOp op, Indices const& extents) {
  bool const sums = op == StridedOp::add || op == StridedOp::subtract;
  auto zero_to = Indices::filled(extents.size(), 0);
  auto zero_from = zero_to;
  for (int a = 0; a < extents.size(); ++a) {
    zero_to[a] = sums && draw(random, 0, 3) == 0 ? 1 : 0;
    zero_from[a] = draw(random, 0, 3) == 0 ? 1 : 0;
  }
  Side const to_side = random_side(random, extents, zero_to);
  Side const from_side = random_side(random, extents, zero_from);
  std::vector<T> to(std::size_t(to_side.size + 8));
  std::vector<T> from(std::size_t(from_side.size));
  for (auto& value : to) value = random_value<T>(random);
  for (auto& value : from) value = random_value<T>(random);
  double const value = double(draw(random, 0, 100));
  auto expected = to;
  for_each_cell(Box::from_extents(extents), [&](Indices const& at) {
    auto& cell = expected[std::size_t(offset(at, to_side) + 4)];
    cell = apply(op, cell, from[std::size_t(offset(at, from_side))], value);
  });

  auto const task = detail::make_strided(op, dtype_of<T>(), extents, to.data() + to_side.first + 4, to_side.strides,
                                         from.data() + from_side.first, from_side.strides, value);
  run(std::span(&task, 1));

  ASSERT_EQ(std::memcmp(to.data(), expected.data(), to.size() * sizeof(T)), 0)
      << "operation " << int(op) << " on " << to_string(extents) << ", to " << to_string(to_side.strides) << ", from "
      << to_string(from_side.strides);
}

TYPED_TEST(Strided, does_what_a_loop_does_on_random_boxes) {
  Random random(1);
  for (auto const op : {StridedOp::copy, StridedOp::negate, StridedOp::add, StridedOp::subtract, StridedOp::fill})
    for (Runner const run : runners())
      for (int trial = 0; trial < (run == detail::run_strided_host ? 100 : 10); ++trial) {
        auto extents = Indices::filled(int(draw(random, 0, 5)), 0);
        for (auto& extent : extents)
          extent = draw(random, 0, 9) == 0 ? 0 : draw(random, 1, trial % 10 == 0 && extents.size() < 4 ? 20 : 4);
        expect_as_by_loop<TypeParam>(random, run, op, extents);
        if (this->HasFatalFailure()) return;
      }
}

TYPED_TEST(Strided, clears_what_dense_rows_have_read) {
  Random random(5);
  for (auto const op : {StridedOp::copy, StridedOp::negate, StridedOp::add, StridedOp::subtract})
    for (Runner const run : runners())
      for (Index const count : {1, 7, 8, 9, 16, 31, 33, 64, 67, 255, 256, 257, 1001})
        for (Index const shift : {0, 1, 3}) {
          Index const num_rows = 3;
          Index const pitch = count + 5;
          std::vector<TypeParam> to(std::size_t(num_rows * pitch + 4));
          std::vector<TypeParam> from(to.size());
          for (auto& value : to) value = random_value<TypeParam>(random);
          for (auto& value : from) value = random_value<TypeParam>(random);
          auto expected = to;
          auto cleared = from;
          for (Index row = 0; row < num_rows; ++row)
            for (Index i = 0; i < count; ++i) {
              auto const at = std::size_t(shift + row * pitch + i);
              expected[at] = apply(op, expected[at], from[at], 0);
              cleared[at] = TypeParam{};
            }

          auto task = detail::make_strided(op, dtype_of<TypeParam>(), {num_rows, count}, to.data() + shift, {pitch, 1},
                                           from.data() + shift, {pitch, 1});
          task.clear_from = true;
          run(std::span(&task, 1));

          auto const bytes = to.size() * sizeof(TypeParam);
          ASSERT_EQ(std::memcmp(to.data(), expected.data(), bytes), 0) << int(op) << ", rows of " << count;
          ASSERT_EQ(std::memcmp(from.data(), cleared.data(), bytes), 0) << int(op) << ", rows of " << count;
        }
}

TYPED_TEST(Strided, shares_large_boxes_among_threads) {
  Random random(2);
  for (auto const op : {StridedOp::copy, StridedOp::negate, StridedOp::add, StridedOp::subtract, StridedOp::fill})
    for (Indices const& extents : std::vector<Indices>{{1 << 17}, {3, 40000}, {50, 60, 30}, {40000, 5}})
      expect_as_by_loop<TypeParam>(random, detail::run_strided_host, op, extents);
}

TEST(Strided, handles_eight_axes) {
  Random random(3);
  for (Runner const run : runners())
    for (int trial = 0; trial < 4; ++trial)
      expect_as_by_loop<double>(random, run, trial % 2 == 0 ? StridedOp::copy : StridedOp::add,
                                {2, 3, 1, 2, 2, 3, 1, 2});
}

TEST(Strided, merges_contiguous_axes_into_one_row) {
  Indices const extents{3, 4, 5};
  std::vector<double> to(60);
  std::vector<double> from(60);
  auto const task =
      detail::make_strided(StridedOp::copy, DType::f64, extents, to.data(), {20, 5, 1}, from.data(), {20, 5, 1});

  EXPECT_EQ(task.ndim, 1);
  EXPECT_EQ(task.num_elements(), 60);
}

// Later tasks of a span see what earlier ones have added.
TEST(Strided, runs_sums_in_the_order_given) {
  for (Runner const run : runners()) {
    double const huge = 1e17;
    std::array<double, 4> const terms{huge, 3, -huge, 1};
    double sum = 0;
    std::vector<StridedTask> tasks;
    for (auto const& term : terms)
      tasks.push_back(detail::make_strided(StridedOp::add, DType::f64, {1}, &sum, {1}, &term, {1}));
    double expected = 0;
    for (double const term : terms) expected += term;

    run(tasks);

    EXPECT_EQ(sum, expected);
  }
}

// The order of a sum must not depend on how its terms lie in memory.
TEST(Strided, sums_a_plane_in_the_same_order_for_every_memory_order) {
  Random random(4);
  Indices const extents{7, 9};
  std::vector<double> rows(63);
  for (auto& value : rows) value = std::ldexp(double(draw(random, -1000000, 1000000)), int(draw(random, -60, 60)));
  std::vector<double> columns(63);
  for_each_cell(Box::from_extents(extents), [&](Indices const& at) {
    columns[std::size_t(at[1] * 7 + at[0])] = rows[std::size_t(at[0] * 9 + at[1])];
  });
  for (Runner const run : runners()) {
    double by_rows = 0;
    double by_columns = 0;
    auto const one = detail::make_strided(StridedOp::add, DType::f64, extents, &by_rows, {0, 0}, rows.data(), {9, 1});
    auto const other =
        detail::make_strided(StridedOp::add, DType::f64, extents, &by_columns, {0, 0}, columns.data(), {1, 7});

    run(std::span(&one, 1));
    run(std::span(&other, 1));

    EXPECT_EQ(by_rows, by_columns);
  }
}

TEST(Strided, copies_bits_of_not_a_number) {
  for (Runner const run : runners()) {
    std::array<std::uint64_t, 3> const from{0x7ff8'dead'beef'0001U, 0xfff0'0000'0000'0001U, 0x8000'0000'0000'0000U};
    std::array<std::uint64_t, 3> to{};
    auto const task = detail::make_strided(StridedOp::copy, DType::f64, {3}, to.data(), {1}, from.data(), {1});

    run(std::span(&task, 1));

    EXPECT_EQ(to, from);
  }
}

bool same(Format const& format, std::uint16_t a, std::uint16_t b) {
  return a == b || (std::isnan(value_of(format, a)) && std::isnan(value_of(format, b)));
}

template <class T>
void run_over(Runner run, StridedOp op, DType dtype, std::vector<T>& to, std::vector<T> const& from) {
  auto const task = detail::make_strided(op, dtype, {Index(to.size())}, to.data(), {1}, from.data(), {1});
  run(std::span(&task, 1));
}

TEST(Strided16, negates_every_number) {
  for (auto const& format : formats)
    for (Runner const run : runners()) {
      std::vector<std::uint16_t> from(65536);
      for (int i = 0; i < 65536; ++i) from[std::size_t(i)] = std::uint16_t(i);
      std::vector<std::uint16_t> to(65536);

      run_over(run, StridedOp::negate, format.dtype, to, from);

      for (int i = 0; i < 65536; ++i)
        ASSERT_TRUE(same(format, to[std::size_t(i)], std::uint16_t(i ^ 0x8000))) << to_string(format.dtype) << " " << i;
    }
}

TEST(Strided16, adds_and_subtracts_with_one_rounding_to_even) {
  Random random(6);
  for (auto const& format : formats)
    for (auto const op : {StridedOp::add, StridedOp::subtract})
      for (Runner const run : runners()) {
        std::vector<std::uint16_t> to(100000);
        std::vector<std::uint16_t> from(to.size());
        for (std::size_t i = 0; i < to.size(); ++i) {
          to[i] = std::uint16_t(random());
          // Half of the terms of like size, where rounding happens.
          from[i] = i % 2 == 0 ? std::uint16_t(random()) : std::uint16_t(to[i] ^ (random() & 0x8fff));
        }
        auto const before = to;

        run_over(run, op, format.dtype, to, from);

        for (std::size_t i = 0; i < to.size(); ++i) {
          double const a = value_of(format, before[i]);
          double const b = value_of(format, from[i]);
          // As the kernel works: in single precision, then rounded once more.
          auto const sum = float(op == StridedOp::add ? a + b : a - b);
          auto const expected = std::isnan(sum) ? std::uint16_t(0x7fff) : nearest(format, double(sum));
          ASSERT_TRUE(same(format, to[i], expected)) << to_string(format.dtype) << ": " << a << " and " << b << " give "
                                                     << value_of(format, to[i]) << ", not " << double(sum);
        }
      }
}

TEST(Strided16, fills_with_the_nearest_number) {
  Random random(7);
  for (auto const& format : formats) {
    std::vector<double> values;
    for (int trial = 0; trial < 3000; ++trial) {
      float value = 0;
      auto const bits = std::uint32_t(random());
      std::memcpy(&value, &bits, sizeof value);
      if (trial % 3 == 0) value = float(value_of(format, std::uint16_t(random()))) * 1.0009765625F;
      if (trial % 3 == 1) value = float(draw(random, -70000, 70000)) * (trial % 2 == 0 ? 1.0F : 0x1p-24F);
      if (!std::isnan(value)) values.push_back(double(value));
    }
    for (Runner const run : runners()) {
      std::vector<std::uint16_t> to(values.size(), 0x1234);
      std::vector<StridedTask> tasks;
      for (std::size_t i = 0; i < values.size(); ++i)
        tasks.push_back(detail::make_strided(StridedOp::fill, format.dtype, {1}, &to[i], {1}, nullptr, {}, values[i]));

      run(tasks);

      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(to[i], nearest(format, values[i])) << to_string(format.dtype) << " of " << values[i];
    }
  }
}

}  // namespace
