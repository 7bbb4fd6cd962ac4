// SPDX-License-Identifier: BSD-3-Clause
// y = alpha * op(x) + beta * y, its transpose, the order of its sums, and many fields in one call.
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "moves_support.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::draw;
using test::MemoryShape;
using test::Random;
using test::rule_of;
using test::TestField;
using test::Trial;
using Complex = std::complex<double>;

namespace {

/// A small integer, or two as a complex number: sums and products of a few of them are exact in every type.
template <class T>
T small(Indices const& b, Indices const& cell, std::uint64_t salt) {
  auto const part = [&](std::uint64_t more) { return bits_of<std::int8_t>(b, cell, salt + more) / 32; };
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Complex>)
    return {typename T::value_type(part(0)), typename T::value_type(part(1000))};
  else
    return T(part(0));
}

template <class T>
inline constexpr bool is_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Complex>;

/// Overlapping boxes of all ranks, and the plan from a layout to them.
struct Replicated {
  test::Geometry geometry;
  Layout from;
  std::vector<Box> boxes;

  Replicated(Random& random, int num_ranks)
      : geometry(test::random_geometry(random, test::NewGrid::permuted)),
        from(test::any_layout(random, num_ranks, geometry.old_extents)) {
    for (int r = 0; r < num_ranks; ++r) boxes.push_back(test::random_box(random, geometry.new_extents));
  }
  [[nodiscard]] RepartitionPlan plan(Comm const& comm) const {
    return {comm, from, boxes[std::size_t(comm.rank())], geometry.options};
  }
};

template <class T>
TestField<T> field_of(Random& random, Box const& box, Indices const& batch, std::uint64_t salt) {
  TestField<T> field(box, batch, test::random_shape(random, box.ndim(), batch.size()), T(-99));
  field.set(box, [&](auto const& b, auto const& cell) { return small<T>(b, cell, salt); });
  return field;
}

template <class T>
void expect_updated(Trial& trial, RepartitionPlan const& plan, test::Geometry const& geometry, Update const& update) {
  auto const batch = test::random_batch(trial.random);
  auto from = field_of<T>(trial.random, plan.source_box(), batch, 1);
  auto to = field_of<T>(trial.random, plan.target_box(), batch, 2);
  auto expected = to;
  bool const overwrites = update.beta.value_or(0) == 0.0;
  to.for_each(plan.target_box(), [&](auto const& b, auto const& cell) {
    auto const image = geometry.image(cell);
    if (!image) return;
    Complex x(small<T>(b, *image, 1));
    if (update.operation == Operation::conjugate) x = std::conj(x);
    Complex const value = update.alpha * x + update.beta.value_or(0) * Complex(to.at(b, cell));
    if constexpr (is_complex<T>)
      expected.at(b, cell) = T(value);
    else
      expected.at(b, cell) = T(value.real());
    // Not read, so it does not leak.
    if (overwrites) to.at(b, cell) = std::numeric_limits<double>::quiet_NaN();
  });

  plan.apply(from.view(), to.view(), update);

  // Zeros may have either sign.
  to.for_each(plan.target_box(), [&](auto const& b, auto const& cell) { to.at(b, cell) += T(0); });
  expected.for_each(plan.target_box(), [&](auto const& b, auto const& cell) { expected.at(b, cell) += T(0); });
  ASSERT_TRUE(to.holds(expected));
}

TEST(MovesUpdate, follow_the_formula_on_selected_cells) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(139);
  std::vector<Update> const real{{},
                                 {.alpha = -1},
                                 {.alpha = 3, .beta = 0.0},
                                 {.alpha = 1, .beta = 1.0},
                                 {.alpha = 0.5, .beta = -2.0},
                                 {.alpha = -1, .beta = 1.0},
                                 {.alpha = 0, .beta = 3.0}};
  std::vector<Update> const others{{.operation = Operation::conjugate},
                                   {.alpha = {0, 1}, .beta = Complex(2, -1)},
                                   {.alpha = {2, 3}, .beta = Complex(0, 1), .operation = Operation::conjugate},
                                   {.alpha = -1, .beta = 1.0, .operation = Operation::conjugate}};
  for (int t = 0; t < 2 * test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    Replicated const move(trial.random, comm.num_ranks());
    auto const plan = move.plan(comm);
    auto const& update = real[std::size_t(t) % real.size()];
    auto const& other = others[std::size_t(t) % others.size()];
    SCOPED_TRACE(trial.name);

    expect_updated<double>(trial, plan, move.geometry, update);
    expect_updated<float>(trial, plan, move.geometry, update);
    expect_updated<Complex>(trial, plan, move.geometry, update);
    expect_updated<Complex>(trial, plan, move.geometry, other);
    expect_updated<std::complex<float>>(trial, plan, move.geometry, other);

    if (testing::Test::HasFailure()) return;
  }
}

double sum_over_ranks(Comm const& comm, double value) {
  double sum = 0;
  EXPECT_EQ(MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, comm.handle()), MPI_SUCCESS);
  return sum;
}

template <class T>
double product(TestField<T> const& a, TestField<T> const& b) {
  double sum = 0;
  a.for_each(a.cover(), [&](auto const& at, auto const& cell) {
    Complex const x(a.at(at, cell));
    Complex const y(b.at(at, cell));
    sum += x.real() * y.real() + x.imag() * y.imag();
  });
  return sum;
}

/// <A x, y> = <x, A' y> of real and imaginary parts, exact because all numbers are small integers.
template <class T>
void expect_transposed(Trial& trial, Comm const& comm, RepartitionPlan const& plan, Update update) {
  auto const batch = test::random_batch(trial.random, 2);
  auto x = field_of<T>(trial.random, plan.source_box(), batch, 3);
  auto y = field_of<T>(trial.random, plan.target_box(), batch, 4 + std::uint64_t(comm.rank()));
  auto ax = y;
  ax.set(ax.cover(), [](auto const&, auto const&) { return T(0); });
  auto aty = x;
  aty.set(aty.cover(), [](auto const&, auto const&) { return T(17); });
  plan.apply(x.view(), ax.view(), update);
  update.beta = 0.0;

  plan.apply_adjoint(aty.view(), y.view(), update);

  double const left = sum_over_ranks(comm, product(ax, y));
  double const right = sum_over_ranks(comm, product(x, aty));
  ASSERT_EQ(left, right);
}

TEST(MovesUpdate, and_its_transpose_have_equal_products) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(149);
  for (int t = 0; t < test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    Replicated const move(trial.random, comm.num_ranks());
    auto const plan = move.plan(comm);
    SCOPED_TRACE(trial.name);

    expect_transposed<double>(trial, comm, plan, {.alpha = 3});
    expect_transposed<float>(trial, comm, plan, {});
    expect_transposed<Complex>(trial, comm, plan, {.alpha = {2, -1}});
    expect_transposed<Complex>(trial, comm, plan, {.alpha = {2, -1}, .operation = Operation::conjugate});
    expect_transposed<std::complex<float>>(trial, comm, plan, {.alpha = {0, 1}, .operation = Operation::conjugate});

    if (testing::Test::HasFailure()) return;
  }
}

// Sums of numbers that do not add up exactly, so that another order shows.
TEST(MovesUpdate, transposed_adds_the_ranks_one_after_the_other) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(151);
  auto const value = [](int rank, auto const& b, auto const& cell) {
    return 1.0F / float(1 + std::abs(bits_of<std::int16_t>(b, cell, std::uint64_t(rank))));
  };
  for (int t = 0; t < test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    Replicated const move(trial.random, comm.num_ranks());
    auto const plan = move.plan(comm);
    auto const batch = test::random_batch(trial.random, 2);
    auto y = field_of<float>(trial.random, plan.target_box(), batch, 0);
    y.set(y.cover(), [&](auto const& b, auto const& cell) { return value(comm.rank(), b, cell); });
    auto x = field_of<float>(trial.random, plan.source_box(), batch, 0);
    x.set(x.cover(), [&](auto const& b, auto const& cell) { return value(50, b, cell); });
    // The factor that is neither 0 nor 1 is applied first and rounded, wherever the grid is cut.
    for (std::optional<double> const beta : {std::optional<double>{}, {0.3}}) {
      SCOPED_TRACE(trial.name + ", beta " + std::to_string(beta.value_or(1)));
      auto expected = x;
      x.for_each(x.cover(), [&](auto const& b, auto const& cell) {
        auto sum = float(beta.value_or(1) * double(x.at(b, cell)));
        for (int r = 0; r < comm.num_ranks(); ++r)
          test::for_each_cell(move.boxes[std::size_t(r)], [&](auto const& image) {
            if (move.geometry.image(image) == cell) sum += value(r, b, image);
          });
        expected.at(b, cell) = sum;
      });
      for (int repeat = 0; repeat < 2; ++repeat) {
        auto sums = x;

        plan.apply_adjoint(sums.view(), y.view(), {.beta = beta});

        ASSERT_TRUE(sums.holds(expected));
      }
    }
  }
}

/// One field of a call with its memory, of any types.
struct AnyField {
  std::function<RepartitionField()> field;
  std::function<void()> reset;
  std::function<testing::AssertionResult()> keep;  ///< the first time: remembers both memories; then: compares them
};

template <class From, class To>
AnyField any_field(Random& random, RepartitionPlan const& plan, Update const& update,
                   std::optional<Packing> const& to_packing = {}) {
  auto const batch = test::random_batch(random);
  auto from = std::make_shared<TestField<From>>(field_of<From>(random, plan.source_box(), batch, 21));
  auto to = std::make_shared<TestField<To>>(
      field_of<To>(random, plan.target_box(), batch, 22 + std::uint64_t(plan.pull_plan().comm().rank())));
  // Numbers that packed integers hold.
  if (to_packing)
    from->set(from->cover(), [](auto const& b, auto const& cell) { return From(bits_of<std::int8_t>(b, cell, 23)); });
  auto const from_before = std::make_shared<TestField<From>>(*from);
  auto const to_before = std::make_shared<TestField<To>>(*to);
  auto from_kept = std::make_shared<std::optional<TestField<From>>>();
  auto to_kept = std::make_shared<std::optional<TestField<To>>>();
  return {[=] {
            return RepartitionField{.from = from->view(), .to = to->view(), .update = update, .to_packing = to_packing};
          },
          [=] {
            from->set(from->cover(), [&](auto const& b, auto const& cell) { return from_before->at(b, cell); });
            to->set(to->cover(), [&](auto const& b, auto const& cell) { return to_before->at(b, cell); });
          },
          [=] {
            if (!*from_kept) {
              *from_kept = *from;
              *to_kept = *to;
              return testing::AssertionSuccess();
            }
            auto const result = from->holds(**from_kept);
            auto const other = to->holds(**to_kept);
            from_kept->reset();
            to_kept->reset();
            return result ? other : result;
          }};
}

TEST(MovesUpdate, of_many_fields_in_one_call_equal_calls_of_each) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(157);
  for (int t = 0; t < test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    auto& random = trial.random;
    Replicated const move(random, comm.num_ranks());
    auto const plan = move.plan(comm);
    std::vector<AnyField> fields;
    fields.push_back(any_field<double, float>(random, plan, {}));
    fields.push_back(any_field<float, double>(random, plan, {.alpha = 2, .beta = 1.0}));
    fields.push_back(any_field<std::complex<float>, Complex>(random, plan, {.alpha = {0, 1}}));
    fields.push_back(any_field<double, double>(random, plan, {.alpha = -1, .beta = 0.5}));
    fields.push_back(any_field<std::int8_t, std::int8_t>(random, plan, {}));
    // Packed integers have no transpose.
    std::size_t const num_with_adjoint = fields.size();
    fields.push_back(any_field<double, std::int16_t>(random, plan, {}, Packing{0.25, 1, -5}));
    enum class Call { forward, adjoint, inverse };
    for (auto const call : {Call::forward, Call::adjoint, Call::inverse}) {
      SCOPED_TRACE(trial.name + ", call " + std::to_string(int(call)));
      auto const apply = [&](std::span<RepartitionField const> some) {
        if (call == Call::forward) plan.apply(some);
        if (call == Call::adjoint) plan.apply_adjoint(some);
        if (call == Call::inverse) plan.apply_inverse(some);
      };
      std::vector<RepartitionField> all;
      auto const count = call == Call::adjoint ? num_with_adjoint : fields.size();
      for (std::size_t f = 0; f < count; ++f) {
        fields[f].reset();
        auto const one = fields[f].field();
        apply(std::span(&one, 1));
        ASSERT_TRUE(fields[f].keep());
        fields[f].reset();
        all.push_back(one);
      }

      apply(all);

      for (std::size_t f = 0; f < count; ++f) ASSERT_TRUE(fields[f].keep()) << "field " << f;
    }
    // No fields at all.
    EXPECT_EQ(rule_of([&] { plan.apply(std::span<RepartitionField const>()); }), "nothing was thrown");
  }
}

TEST(MovesUpdate, refuse_factors_and_packings_that_mean_nothing) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 7});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{8, 7});
  RepartitionPlan const plan(comm, rows, columns);
  auto const shape = MemoryShape::dense(2, 0);
  TestField<double> from(plan.source_box(), {}, shape, 1);
  TestField<double> to(plan.target_box(), {}, shape, 2);
  TestField<std::int16_t> packed(plan.target_box(), {}, shape, 3);
  auto const before = to;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (Update const& update : std::vector<Update>{{.alpha = {0, 1}},
                                                  {.beta = Complex(1, 1)},
                                                  {.alpha = nan},
                                                  {.beta = std::numeric_limits<double>::infinity()}}) {
    EXPECT_EQ(rule_of([&] { plan.apply(from.view(), to.view(), update); }), "Conversion");
    EXPECT_EQ(rule_of([&] { plan.apply_adjoint(from.view(), to.view(), update); }), "Conversion");
    EXPECT_EQ(rule_of([&] { plan.apply_inverse(from.view(), to.view(), update); }), "Conversion");
  }
  RepartitionField const field{.from = from.view(), .to = packed.view(), .to_packing = Packing{}};
  EXPECT_EQ(rule_of([&] { plan.apply_adjoint(std::span(&field, 1)); }), "Conversion");
  EXPECT_EQ(rule_of([&] { plan.apply(std::span(&field, 1)); }), "nothing was thrown");
  EXPECT_TRUE(to.holds(before));
}

}  // namespace
