// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/permutation_map.hpp>
#include <graticule/repartition/detail/pull.hpp>

#include "expect_error.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::draw;
using test::for_each_cell;
using test::MemoryShape;
using test::Random;
using test::rule_of;
using test::TestField;
using test::thrown_by;

namespace {

/// Needed cell (e0, e1) of a source with n0 x n1 cells:
/// e0 < -2: left alone; -2 <= e0 < 0: constant 4.5; 0 <= e0 < n1: source cell (n0 - 1 - e1, e0), turned and mirrored,
/// odd; e0 >= n1: source cell (n0 - 1 - e1, n1 - 1), the last column repeated, even. e1 stays in [0, n0).
constexpr double filling = 4.5;

struct Turned {
  Indices extents;

  enum class Kind { cell, constant, nothing };
  struct Image {
    Kind kind;
    Indices cell;
    double sign;
  };

  [[nodiscard]] Image image(Indices const& e, Parity parity) const {
    if (e[0] < -2) return {Kind::nothing, {}, 0};
    if (e[0] < 0) return {Kind::constant, {}, 0};
    Index const row = extents[0] - 1 - e[1];
    if (e[0] < extents[1]) return {Kind::cell, {row, e[0]}, parity == Parity::odd ? -1.0 : 1.0};
    return {Kind::cell, {row, extents[1] - 1}, 1};
  }

  [[nodiscard]] IndexMap map() const {
    return [n = extents](Box const& needed) {
      constexpr Index far = 1 << 20;
      auto const part = [&](Index lo, Index hi) { return intersection(needed, Box({lo, 0}, {hi, n[0]})); };
      Piece filled;
      filled.box = part(-2, 0);
      filled.filled = true;
      filled.fill = filling;
      AxisMap const mirrored{0, -1, n[0] - 1};
      Piece inside;
      inside.box = part(0, n[1]);
      inside.maps[0] = {1, 1, 0};
      inside.maps[1] = mirrored;
      inside.odd_folds = true;
      Piece repeated;
      repeated.box = part(n[1], far);
      repeated.maps[0] = {1, 0, n[1] - 1};
      repeated.maps[1] = mirrored;
      return std::vector<Piece>{filled, repeated, inside};
    };
  }
};

/// Two targets on every rank, with needed boxes that overlap those of other ranks; the same on all ranks.
struct Case {
  Turned turned;
  Layout source;
  std::vector<std::array<Target, 2>> targets;  ///< by rank

  [[nodiscard]] Box source_box(int rank) const {
    return grown(source.owned(rank), std::array{Width{rank % 2, 1}, Width{0, 2}});
  }
  [[nodiscard]] PullDescription description(int rank, AfterAdjoint after = AfterAdjoint::keep) const {
    auto const& own = targets[std::size_t(rank)];
    return {source, {{source_box(rank), {own.begin(), own.end()}, turned.map()}}, 5, after};
  }
  [[nodiscard]] bool is_needed(int rank, int target, Indices const& cell) const {
    for (auto const& box : targets[std::size_t(rank)][std::size_t(target)].needed)
      if (box.contains(cell)) return true;
    return false;
  }
};

Case random_case(Random& random, int num_ranks) {
  auto const extents = test::random_extents(random, 2, 6);
  Case c{{extents}, test::random_layout(random, num_ranks, extents), {}};
  for (int r = 0; r < num_ranks; ++r) {
    auto& own = c.targets.emplace_back();
    for (auto& target : own) {
      Index const lo = draw(random, -4, 2);
      target.box = Box({lo, 0}, {lo + draw(random, 0, 9), extents[0]});
      Index const middle = draw(random, target.box.lo(0), target.box.hi(0));
      Index const low_column = draw(random, 0, extents[0]);
      // Two boxes that do not touch the last row of the target.
      target.needed = {Box({target.box.lo(0), low_column}, {middle, extents[0]}),
                       Box({middle, 0}, {std::max(middle, target.box.hi(0) - 1), extents[0]})};
    }
  }
  return c;
}

double number(Indices const& batch, Indices const& cell) { return double(bits_of<std::int16_t>(batch, cell)); }

double cotangent(int rank, int target, Indices const& batch, Indices const& cell) {
  return double(bits_of<std::int16_t>(batch, cell, std::uint64_t(2 * rank + target) + 100));
}

/// A source and two targets of one type.
template <class T>
struct Fields {
  TestField<T> source;
  std::vector<TestField<T>> targets;
  std::vector<FieldView> views;

  Fields(Random& random, Case const& c, int rank, Indices const& batch)
      : source(c.source_box(rank), batch, MemoryShape::random(random, 2, batch.size()), T(-7)) {
    for (auto const& target : c.targets[std::size_t(rank)])
      targets.emplace_back(target.box, batch, MemoryShape::random(random, 2, batch.size()), T(-8));
    source.set(c.source.owned(rank), [](auto const& b, auto const& cell) { return T(number(b, cell)); });
  }
  PullField field(Parity parity) {
    views = {targets[0].view(), targets[1].view()};
    return {source.view(), views, parity};
  }
};

template <class T>
void fill_by_formula(Fields<T>& fields, Case const& c, int rank, Parity parity) {
  for (int t = 0; t < 2; ++t) {
    auto& target = fields.targets[std::size_t(t)];
    target.for_each(target.cover(), [&](auto const& b, auto const& cell) {
      auto const image = c.turned.image(cell, parity);
      if (!c.is_needed(rank, t, cell) || image.kind == Turned::Kind::nothing) return;
      target.at(b, cell) = image.kind == Turned::Kind::constant ? T(filling) : T(image.sign * number(b, image.cell));
    });
  }
}

template <class T>
void expect_equal(Fields<T> const& found, Fields<T> const& expected) {
  EXPECT_TRUE(found.source.holds(expected.source));
  for (std::size_t t = 0; t < 2; ++t) EXPECT_TRUE(found.targets[t].holds(expected.targets[t])) << "target " << t;
}

/// Fewer where ranks share cores and each message takes a turn of the scheduler.
int num_trials(Comm const& comm) { return comm.num_ranks() == 1 ? 60 : comm.num_ranks() == 2 ? 25 : 8; }

TEST(PullPlan, fills_all_needed_cells_of_all_targets_and_no_others) {
  Random random(51);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm) && !HasFailure(); ++trial) {
    auto const c = random_case(random, comm.num_ranks());
    PullPlan const plan(comm, c.description(comm.rank()));
    Fields<double> scalar(random, c, comm.rank(), {2});
    Fields<float> vector(random, c, comm.rank(), {});
    Fields<std::int16_t> none(random, c, comm.rank(), {0});
    Fields<std::int16_t> small(random, c, comm.rank(), {1});
    auto expected_scalar = scalar;
    auto expected_vector = vector;
    auto expected_small = small;
    auto const expected_none = none;
    fill_by_formula(expected_small, c, comm.rank(), Parity::even);
    fill_by_formula(expected_scalar, c, comm.rank(), Parity::even);
    fill_by_formula(expected_vector, c, comm.rank(), Parity::odd);

    plan.apply(std::vector{small.field(Parity::even), scalar.field(Parity::even), none.field(Parity::odd),
                           vector.field(Parity::odd)});

    SCOPED_TRACE(to_string(c.source) + " in trial " + std::to_string(trial));
    expect_equal(small, expected_small);
    expect_equal(scalar, expected_scalar);
    expect_equal(vector, expected_vector);
    expect_equal(none, expected_none);
  }
}

/// The adjoint term by term over the targets of all ranks.
Fields<double> adjoint_by_formula(Fields<double> fields, Case const& c, Comm const& comm, Parity parity,
                                  AfterAdjoint after) {
  Box const owned = c.source.owned(comm.rank());
  for (int r = 0; r < comm.num_ranks(); ++r)
    for (int t = 0; t < 2; ++t)
      for_each_cell(c.targets[std::size_t(r)][std::size_t(t)].box, [&](Indices const& cell) {
        auto const image = c.turned.image(cell, parity);
        if (!c.is_needed(r, t, cell) || image.kind == Turned::Kind::nothing) return;
        for_each_cell(fields.source.batch(), [&](Indices const& b) {
          if (image.kind == Turned::Kind::cell && owned.contains(image.cell))
            fields.source.at(b, image.cell) += image.sign * cotangent(r, t, b, cell);
          if (r == comm.rank() && after == AfterAdjoint::zero) fields.targets[std::size_t(t)].at(b, cell) = 0;
        });
      });
  return fields;
}

Fields<double> random_cotangents(Random& random, Case const& c, int rank, Indices const& batch) {
  Fields<double> fields(random, c, rank, batch);
  for (int t = 0; t < 2; ++t) {
    auto& target = fields.targets[std::size_t(t)];
    target.set(target.cover(), [&](auto const& b, auto const& cell) { return cotangent(rank, t, b, cell); });
  }
  return fields;
}

TEST(PullPlan, adjoint_adds_every_needed_cell_to_its_image) {
  Random random(53);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm) && !HasFailure(); ++trial) {
    auto const c = random_case(random, comm.num_ranks());
    auto const after = trial % 2 == 0 ? AfterAdjoint::keep : AfterAdjoint::zero;
    auto const parity = trial % 3 == 0 ? Parity::even : Parity::odd;
    PullPlan const plan(comm, c.description(comm.rank(), after));
    auto fields = random_cotangents(random, c, comm.rank(), {2});
    auto const expected = adjoint_by_formula(fields, c, comm, parity, after);

    plan.apply_adjoint(std::vector{fields.field(parity)});

    SCOPED_TRACE(to_string(c.source) + " in trial " + std::to_string(trial));
    expect_equal(fields, expected);
  }
}

TEST(PullPlan, adjoint_may_be_told_at_the_end_where_it_adds_to) {
  Random random(57);
  auto const comm = Comm::world();
  for (int trial = 0; trial < 8; ++trial) {
    auto const c = random_case(random, comm.num_ranks());
    PullPlan const plan(comm, c.description(comm.rank()));
    auto fields = random_cotangents(random, c, comm.rank(), {2});
    auto const expected = adjoint_by_formula(fields, c, comm, Parity::even, AfterAdjoint::keep);
    auto field = fields.field(Parity::even);
    auto const source = field.source;
    auto other_type = source;
    other_type.dtype = DType::i64;
    auto other_batch = source;
    for (auto& extent : other_batch.extents) ++extent;
    field.source.data = nullptr;

    auto pending = plan.start_adjoint(std::vector{field});
    if (!c.source_box(comm.rank()).empty()) {
      EXPECT_EQ(rule_of([&] { pending.wait(); }), "FieldMismatch");
    }
    EXPECT_EQ(rule_of([&] { pending.wait_into({}); }), "FieldMismatch");
    EXPECT_EQ(rule_of([&] { pending.wait_into(std::array{other_type}); }), "FieldMismatch");
    EXPECT_EQ(rule_of([&] { pending.wait_into(std::array{other_batch}); }), "FieldMismatch");
    EXPECT_TRUE(pending.active());
    pending.wait_into(std::array{source});

    EXPECT_FALSE(pending.active());
    expect_equal(fields, expected);
  }
}

// A dropped adjoint without memory takes its messages with it: the next call gets its own.
TEST(PullPlan, a_dropped_adjoint_leaves_nothing_behind) {
  Random random(59);
  auto const comm = Comm::world();
  auto const c = random_case(random, comm.num_ranks());
  PullPlan const plan(comm, c.description(comm.rank()));
  auto dropped = random_cotangents(random, c, comm.rank(), {2});
  for (auto& target : dropped.targets) target.set(target.cover(), [](auto const&, auto const&) { return 1e9; });
  auto fields = random_cotangents(random, c, comm.rank(), {2});
  auto const expected = adjoint_by_formula(fields, c, comm, Parity::even, AfterAdjoint::keep);
  auto field = dropped.field(Parity::even);
  field.source.data = nullptr;

  { auto const pending = plan.start_adjoint(std::vector{field}); }
  plan.apply_adjoint(std::vector{fields.field(Parity::even)});

  expect_equal(fields, expected);
  EXPECT_LE(plan.num_workspaces(), 2) << "one, and one more where peers were late to read";
}

TEST(PullPlan, serves_several_calls_with_other_numbers_of_fields_in_flight) {
  Random random(61);
  auto const comm = Comm::world();
  auto const c = random_case(random, comm.num_ranks());
  PullPlan const plan(comm, c.description(comm.rank()));
  for (int repeat = 0; repeat < 3; ++repeat) {
    Fields<double> one(random, c, comm.rank(), {3});
    Fields<float> two(random, c, comm.rank(), {1});
    Fields<std::int32_t> three(random, c, comm.rank(), {2, 2});
    auto expected_one = one;
    auto expected_two = two;
    auto expected_three = three;
    fill_by_formula(expected_one, c, comm.rank(), Parity::even);
    fill_by_formula(expected_two, c, comm.rank(), Parity::odd);
    fill_by_formula(expected_three, c, comm.rank(), Parity::even);

    auto first = plan.start(std::vector{one.field(Parity::even)});
    auto second = plan.start(std::vector{two.field(Parity::odd), three.field(Parity::even)});
    auto third = plan.start({});
    third.wait();
    second.wait();
    first.wait();

    expect_equal(one, expected_one);
    expect_equal(two, expected_two);
    expect_equal(three, expected_three);
  }
  EXPECT_LE(plan.num_workspaces(), 6) << "three, and as many more where peers were late to read";
}

TEST(PullPlan, refuses_on_all_ranks_what_is_wrong_on_one) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const source(ProcessGrid{n}, Indices{4 * n});
  Box const owned = source.owned(comm.rank());
  for (int wrong = 0; wrong < comm.num_ranks(); ++wrong) {
    bool const here = comm.rank() == wrong;
    PullDescription const good{
        source, {{owned, {{owned, {owned}}}, detail::permutation_map({0})}}, 1, AfterAdjoint::keep};
    auto const rule = [&](auto change) {
      auto description = good;
      if (here) change(description);
      auto const thrown = thrown_by([&] { PullPlan(comm, description); });
      if (!here && thrown.rule != "ArgumentDisagreement" && thrown.rule != "nothing was thrown") {
        EXPECT_NE(thrown.text.find("rank " + std::to_string(wrong)), std::string::npos) << thrown.text;
      }
      return test::Rule{thrown.rule, thrown.text};
    };

    EXPECT_EQ(rule([&](auto& d) { d.kinds[0].source_box.set(0, owned.lo(0) + 1, owned.hi(0)); }),
              (test::ErrorWith{"FieldMismatch", "the source covers"}));
    EXPECT_EQ(rule([&](auto& d) { d.kinds[0].targets[0].needed[0].set(0, owned.lo(0), owned.hi(0) + 1); }),
              (test::ErrorWith{"FieldMismatch", "the target covers"}));
    EXPECT_EQ(rule([&](auto& d) {
                Box const outside({-1}, {1});
                d.kinds[0].targets[0] = {outside, {outside}};
              }),
              "OutOfRange");
    EXPECT_EQ(rule([&](auto& d) {
                d.kinds[0].map = [](Box const&) -> std::vector<Piece> {
                  throw Error("OwnRule", "of the caller's map");
                };
              }),
              "OwnRule");
    if (n > 1) {
      EXPECT_EQ(rule([&](auto& d) { d.fingerprint = 2; }), "ArgumentDisagreement");
      EXPECT_EQ(rule([&](auto& d) { d.after_adjoint = AfterAdjoint::zero; }), "ArgumentDisagreement");
      EXPECT_EQ(rule([&](auto& d) { d.kinds[0].targets.push_back(d.kinds[0].targets[0]); }), "ArgumentDisagreement");
    }
    EXPECT_EQ(rule([](auto&) {}), "nothing was thrown");
  }
}

TEST(PullPlan, refuses_fields_that_do_not_fit) {
  Random random(67);
  auto const comm = Comm::world();
  Layout const source(ProcessGrid{comm.num_ranks()}, Indices{4 * comm.num_ranks()});
  Box const owned = source.owned(comm.rank());
  PullPlan const plan(comm,
                      {source, {{owned, {{owned, {owned}}}, detail::permutation_map({0})}}, 1, AfterAdjoint::keep});
  TestField<double> from(owned, {}, MemoryShape::dense(1, 0), 1);
  TestField<double> to(owned, {}, MemoryShape::dense(1, 0), 2);
  std::array const one{to.view()};
  std::array const two{to.view(), to.view()};

  EXPECT_EQ(rule_of([&] { plan.apply(std::vector<PullField>{{from.view(), two, Parity::even}}); }), "FieldMismatch");
  EXPECT_EQ(rule_of([&] { plan.apply(std::vector<PullField>{{from.view(), {}, Parity::even}}); }), "FieldMismatch");
  EXPECT_EQ(rule_of([&] {
              plan.apply(std::vector<PullField>{{from.view(), one, Parity::even}});
            }),
            "nothing was thrown");
  EXPECT_EQ(to.at({}, owned.lo()), 1);
}

}  // namespace
