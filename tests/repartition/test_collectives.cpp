// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/collectives.hpp>

#include "expect_error.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <memory>
#include <utility>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::draw;
using test::MemoryShape;
using test::Random;
using test::random_batch;
using test::rule_of;
using test::TestField;

namespace {

/// A small whole number for each rank, batch element and cell, as a `T`; sums over ranks are exact in every type.
template <class T>
T number(int rank, Indices const& batch, Indices const& cell) {
  return T(bits_of<std::uint8_t>(batch, cell, std::uint64_t(rank)) % 8);
}

template <class T>
T sum_of_numbers(int num_ranks, Indices const& batch, Indices const& cell) {
  T sum = T(0);
  for (int rank = 0; rank < num_ranks; ++rank) sum = T(sum + number<T>(rank, batch, cell));
  return sum;
}

/// Values whose sum depends on the order of the terms.
template <class T>
T rough(int rank, Indices const& batch, Indices const& cell) {
  auto const bits = bits_of<std::uint32_t>(batch, cell, 100 + std::uint64_t(rank));
  return T(double(bits) * (rank % 2 == 0 ? 1e-3 : -1e2));
}

template <class T>
T rough_sum(int num_ranks, Indices const& batch, Indices const& cell) {
  T sum = rough<T>(0, batch, cell);
  for (int rank = 1; rank < num_ranks; ++rank) sum += rough<T>(rank, batch, cell);
  return sum;
}

/// Calls `visit(T{})` for every type that fields have sums of here.
template <class Visit>
void for_each_type(Visit&& visit) {
  visit(std::uint8_t{});
  visit(std::int8_t{});
  visit(std::int16_t{});
  visit(std::int32_t{});
  visit(std::int64_t{});
  visit(float{});
  visit(double{});
  visit(std::complex<float>{});
  visit(std::complex<double>{});
}

/// A plan of shards and fields of it in random memory.
struct Case {
  Layout layout;
  ShardsPlan plan;
  Indices batch;

  static Case any(Random& random, Comm const& comm) {
    auto const extents = test::random_extents(random, int(draw(random, 1, 3)), 7);
    auto const layout = test::random_layout(random, comm.num_ranks(), extents);
    int const root = int(draw(random, 0, comm.num_ranks() - 1));
    return {layout, ShardsPlan(comm, layout, root), random_batch(random)};
  }

  template <class T>
  [[nodiscard]] TestField<T> field(Random& random, Box const& box) const {
    auto const shape = MemoryShape::random(random, layout.ndim(), batch.size());
    return {box, batch, shape, bits_of<T>({}, {}, 1)};
  }
};

int num_trials(Comm const& comm) { return comm.num_ranks() <= 2 ? 10 : comm.num_ranks() == 3 ? 5 : 3; }

TEST(ShardsPlan, all_gather_gives_every_rank_all_parts) {
  Random random(3);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm); ++trial) {
    auto const c = Case::any(random, comm);
    SCOPED_TRACE(to_string(c.layout));
    ASSERT_EQ(c.plan.part_box(), c.layout.owned(comm.rank()));
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      auto part = c.field<T>(random, c.plan.part_box());
      part.set(part.cover(), [](auto const& b, auto const& cell) { return bits_of<T>(b, cell); });
      auto whole = c.field<T>(random, c.layout.global());
      auto expected = whole;
      expected.set(whole.cover(), [](auto const& b, auto const& cell) { return bits_of<T>(b, cell); });

      c.plan.all_gather(part.view(), whole.view());

      EXPECT_TRUE(whole.holds(expected));
    });
    if (HasFailure()) return;
  }
}

TEST(ShardsPlan, its_plans_move_several_fields_in_a_call_and_in_calls_in_flight) {
  Random random(23);
  auto const comm = Comm::world();
  auto const c = Case::any(random, comm);
  SCOPED_TRACE(to_string(c.layout));
  auto const numbered = [](std::uint64_t number) {
    return [number](auto const& b, auto const& cell) { return bits_of<double>(b, cell, number); };
  };
  auto first = c.field<double>(random, c.plan.part_box());
  auto second = c.field<double>(random, c.plan.part_box());
  first.set(first.cover(), numbered(1));
  second.set(second.cover(), numbered(2));
  auto const wholes =
      std::array{c.field<double>(random, c.layout.global()), c.field<double>(random, c.layout.global())};
  auto expected = wholes;
  expected[0].set(expected[0].cover(), numbered(1));
  expected[1].set(expected[1].cover(), numbered(2));

  auto together = wholes;
  std::array const fields{RepartitionField{first.view(), together[0].view()},
                          RepartitionField{second.view(), together[1].view()}};
  c.plan.all_gather_plan().apply(fields);
  EXPECT_TRUE(together[0].holds(expected[0]));
  EXPECT_TRUE(together[1].holds(expected[1]));

  auto const root = c.plan.gather_plan().target_box();
  auto gathered = std::array{c.field<double>(random, root), c.field<double>(random, root)};
  auto at_root = gathered;
  at_root[0].set(at_root[0].cover(), numbered(1));
  at_root[1].set(at_root[1].cover(), numbered(2));
  auto one = c.plan.gather_plan().start(first.view(), gathered[0].view());
  auto other = c.plan.gather_plan().start(second.view(), gathered[1].view());
  other.wait();
  one.wait();
  EXPECT_TRUE(gathered[0].holds(at_root[0]));
  EXPECT_TRUE(gathered[1].holds(at_root[1]));
}

TEST(ShardsPlan, reduce_scatter_gives_every_rank_its_part_of_the_sum) {
  Random random(5);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm); ++trial) {
    auto const c = Case::any(random, comm);
    SCOPED_TRACE(to_string(c.layout));
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      auto whole = c.field<T>(random, c.layout.global());
      whole.set(whole.cover(), [&](auto const& b, auto const& cell) { return number<T>(comm.rank(), b, cell); });
      auto const before = whole;
      auto part = c.field<T>(random, c.plan.part_box());
      auto expected = part;
      expected.set(part.cover(),
                   [&](auto const& b, auto const& cell) { return sum_of_numbers<T>(comm.num_ranks(), b, cell); });

      c.plan.reduce_scatter(whole.view(), part.view());

      EXPECT_TRUE(part.holds(expected));
      EXPECT_TRUE(whole.holds(before));
    });
    if (HasFailure()) return;
  }
}

TEST(ShardsPlan, reduce_scatter_adds_in_order_of_ranks) {
  Random random(7);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm); ++trial) {
    auto const c = Case::any(random, comm);
    auto whole = c.field<float>(random, c.layout.global());
    whole.set(whole.cover(), [&](auto const& b, auto const& cell) { return rough<float>(comm.rank(), b, cell); });
    auto part = c.field<float>(random, c.plan.part_box());
    auto expected = part;
    expected.set(part.cover(),
                 [&](auto const& b, auto const& cell) { return rough_sum<float>(comm.num_ranks(), b, cell); });

    c.plan.reduce_scatter(whole.view(), part.view());

    ASSERT_TRUE(part.holds(expected)) << to_string(c.layout);
  }
}

TEST(ShardsPlan, gather_to_the_root_and_scatter_from_it_are_inverse) {
  Random random(11);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm); ++trial) {
    auto const c = Case::any(random, comm);
    SCOPED_TRACE(to_string(c.layout) + ", root " + std::to_string(c.plan.root()));
    bool const is_root = comm.rank() == c.plan.root();
    for_each_type([&](auto zero) {
      using T = decltype(zero);
      auto part = c.field<T>(random, c.plan.part_box());
      auto returned = part;
      part.set(part.cover(), [](auto const& b, auto const& cell) { return bits_of<T>(b, cell); });
      auto whole = c.field<T>(random, c.layout.global());
      auto expected = whole;
      if (is_root) expected.set(whole.cover(), [](auto const& b, auto const& cell) { return bits_of<T>(b, cell); });

      c.plan.gather(part.view(), is_root ? whole.view() : FieldView{});
      c.plan.scatter(is_root ? whole.view() : FieldView{}, returned.view());

      EXPECT_TRUE(whole.holds(expected));
      EXPECT_TRUE(returned.holds(part));
    });
    if (HasFailure()) return;
  }
}

/// Plans for copies of one shard, of one for each rank, and of axes shorter than there are ranks; made once for all
/// tests.
class ReplicatedFieldPlanTest : public testing::Test {
 protected:
  struct Made {
    Indices extents;
    int root;
    ReplicatedFieldPlan plan;
  };

  static void SetUpTestSuite() {
    comm_ = std::make_unique<Comm>(Comm::world());
    int const last = comm_->num_ranks() - 1;
    plans_.clear();
    for (auto const& [extents, root] :
         {std::pair(Indices{1}, last), std::pair(Indices{5, 3}, 0), std::pair(Indices{2048, 2}, last),
          std::pair(Indices{3, 2900}, 0), std::pair(Indices{2, 4, 1200}, last / 2), std::pair(Indices{0, 4}, last)})
      plans_.push_back({extents, root, ReplicatedFieldPlan(*comm_, extents, root)});
  }
  static void TearDownTestSuite() {
    plans_.clear();
    comm_.reset();
  }

  template <class Visit>
  void for_each_plan(Visit&& visit) const {
    for (auto const& [extents, root, plan] : plans_) {
      SCOPED_TRACE(to_string(extents) + ", root " + std::to_string(root));
      visit(plan, extents, root);
      if (HasFailure()) return;
    }
  }

  inline static std::unique_ptr<Comm> comm_;
  inline static std::vector<Made> plans_;
};

template <class T>
TestField<T> copy_of(Random& random, Indices const& extents, Indices const& batch) {
  return {Box::from_extents(extents), batch, MemoryShape::random(random, extents.size(), batch.size()),
          bits_of<T>({}, {}, 1)};
}

template <class T>
void expect_broadcast(Random& random, ReplicatedFieldPlan const& plan, Indices const& extents, bool is_root) {
  auto field = copy_of<T>(random, extents, random_batch(random));
  auto expected = field;
  expected.set(field.cover(), [](auto const& b, auto const& cell) { return bits_of<T>(b, cell); });
  if (is_root) field = expected;

  plan.broadcast(field.view());

  EXPECT_TRUE(field.holds(expected));
}

TEST_F(ReplicatedFieldPlanTest, broadcast_gives_every_rank_the_field_of_the_root) {
  Random random(13);
  for_each_plan([&](ReplicatedFieldPlan const& plan, Indices const& extents, int root) {
    bool const is_root = comm_->rank() == root;
    expect_broadcast<double>(random, plan, extents, is_root);
    expect_broadcast<std::uint8_t>(random, plan, extents, is_root);
    expect_broadcast<std::complex<float>>(random, plan, extents, is_root);
    expect_broadcast<std::int16_t>(random, plan, extents, is_root);
  });
}

template <class T>
void expect_sums(Random& random, Comm const& comm, ReplicatedFieldPlan const& plan, Indices const& extents, int root) {
  auto field = copy_of<T>(random, extents, random_batch(random));
  field.set(field.cover(), [&](auto const& b, auto const& cell) { return number<T>(comm.rank(), b, cell); });
  auto const before = field;
  auto sums = field;
  sums.set(field.cover(),
           [&](auto const& b, auto const& cell) { return sum_of_numbers<T>(comm.num_ranks(), b, cell); });
  auto everywhere = field;

  plan.sum_reduce(field.view());
  plan.all_sum_reduce(everywhere.view());

  EXPECT_TRUE(field.holds(comm.rank() == root ? sums : before));
  EXPECT_TRUE(everywhere.holds(sums));
}

TEST_F(ReplicatedFieldPlanTest, sums_of_every_type_are_those_of_all_ranks) {
  Random random(17);
  int turn = 0;
  for_each_plan([&](ReplicatedFieldPlan const& plan, Indices const& extents, int root) {
    int number_of_type = 0;
    // A few types for each plan, all types over all plans.
    for_each_type([&](auto zero) {
      if (number_of_type++ % 4 == turn % 4) expect_sums<decltype(zero)>(random, *comm_, plan, extents, root);
    });
    ++turn;
  });
}

TEST_F(ReplicatedFieldPlanTest, sums_are_added_in_order_of_ranks_on_all_ranks) {
  Random random(19);
  for_each_plan([&](ReplicatedFieldPlan const& plan, Indices const& extents, int root) {
    auto field = copy_of<double>(random, extents, {2});
    field.set(field.cover(), [&](auto const& b, auto const& cell) { return rough<double>(comm_->rank(), b, cell); });
    auto const before = field;
    auto everywhere = field;
    auto sums = field;
    sums.set(field.cover(),
             [&](auto const& b, auto const& cell) { return rough_sum<double>(comm_->num_ranks(), b, cell); });

    plan.sum_reduce(field.view());
    plan.all_sum_reduce(everywhere.view());

    EXPECT_TRUE(field.holds(comm_->rank() == root ? sums : before));
    EXPECT_TRUE(everywhere.holds(sums));
  });
}

/// Sum over all ranks of the products of two fields of small whole numbers: exact.
Index dot(Comm const& comm, TestField<double> const& x, TestField<double> const& y, Box const& box) {
  std::array<Index, 1> sum{0};
  x.for_each(box, [&](auto const& b, auto const& cell) { sum[0] += Index(x.at(b, cell) * y.at(b, cell)); });
  comm.sum(std::span(sum));
  return sum[0];
}

TestField<double> numbered(Comm const& comm, TestField<double> field, int salt) {
  field.set(field.cover(),
            [&](auto const& b, auto const& cell) { return number<double>(comm.rank() + 50 * salt, b, cell) - 3; });
  return field;
}

TEST(Collectives, pairs_are_adjoint) {
  Random random(23);
  auto const comm = Comm::world();
  for (int trial = 0; trial < num_trials(comm); ++trial) {
    auto const c = Case::any(random, comm);
    Box const global = c.layout.global();
    Box const part = c.plan.part_box();
    bool const is_root = comm.rank() == c.plan.root();
    Box const at_root = is_root ? global : Box(global.lo(), global.lo());
    auto const x = numbered(comm, c.field<double>(random, part), 1);
    auto const y = numbered(comm, c.field<double>(random, global), 2);
    auto moved = c.field<double>(random, global);
    auto back = c.field<double>(random, part);

    auto x_in = x;
    auto y_in = y;
    c.plan.all_gather(x_in.view(), moved.view());
    c.plan.reduce_scatter(y_in.view(), back.view());
    EXPECT_EQ(dot(comm, moved, y, global), dot(comm, x, back, part)) << "all-gather";

    c.plan.gather(x_in.view(), is_root ? moved.view() : FieldView{});
    c.plan.scatter(is_root ? y_in.view() : FieldView{}, back.view());
    EXPECT_EQ(dot(comm, moved, y, at_root), dot(comm, x, back, part)) << "gather";

    ReplicatedFieldPlan const copies(comm, global.extents(), c.plan.root());
    auto const z = numbered(comm, c.field<double>(random, global), 3);
    auto spread = z;
    auto reduced = y;
    copies.broadcast(spread.view());
    copies.sum_reduce(reduced.view());
    EXPECT_EQ(dot(comm, spread, y, global), dot(comm, z, reduced, at_root)) << "broadcast";
    auto summed_z = z;
    auto summed_y = y;
    copies.all_sum_reduce(summed_z.view());
    copies.all_sum_reduce(summed_y.view());
    EXPECT_EQ(dot(comm, summed_z, y, global), dot(comm, z, summed_y, global)) << "all-sum-reduce";
  }
}

TEST(AllToAll, turns_parts_along_one_axis_into_parts_along_another) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  for (auto const& [from_axis, to_axis] : {std::pair(0, 2), std::pair(2, 1), std::pair(1, 1)}) {
    auto const plan = all_to_all(comm, {5, 4, 9}, from_axis, to_axis);
    auto const part_of = [&](int axis) {
      Box box = Box::from_extents({5, 4, 9});
      auto const cuts = balanced_cuts(box.extent(axis), n);
      box.set(axis, cuts.lo(comm.rank()), cuts.hi(comm.rank()));
      return box;
    };
    ASSERT_EQ(plan.source_box(), part_of(from_axis));
    ASSERT_EQ(plan.target_box(), part_of(to_axis));
    TestField<float> from(plan.source_box(), {2}, MemoryShape::dense(3, 1), -1);
    from.set(from.cover(), [](auto const& b, auto const& cell) { return bits_of<float>(b, cell); });
    TestField<float> to(plan.target_box(), {2}, MemoryShape::dense(3, 1), -2);
    auto expected = to;
    expected.set(to.cover(), [](auto const& b, auto const& cell) { return bits_of<float>(b, cell); });

    plan.apply(from.view(), to.view());

    EXPECT_TRUE(to.holds(expected));
  }
}

TEST(Collectives, refuse_what_does_not_exist_on_all_ranks) {
  auto const comm = Comm::world();
  int const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{6, 4});
  bool const is_last = comm.rank() == n - 1;

  EXPECT_EQ(rule_of([&] { ShardsPlan(comm, rows, n); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { ShardsPlan(comm, rows, is_last ? -1 : 0); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { ReplicatedFieldPlan(comm, {3}, is_last ? n : 0); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { (void)all_to_all(comm, {4, 4}, 0, is_last ? 2 : 1); }), "BadAxis");
  EXPECT_EQ(rule_of([&] { (void)all_to_all(comm, {4, 4}, -1, 1); }), "BadAxis");
}

TEST(ReplicatedFieldPlan, a_field_that_does_not_fit_on_one_rank_is_an_error_and_the_plan_stays_usable) {
  Random random(29);
  auto const comm = Comm::world();
  bool const is_last = comm.rank() == comm.num_ranks() - 1;
  for (auto const& extents : {Indices{4, 3}, Indices{64, 64}}) {
    ReplicatedFieldPlan const plan(comm, extents);
    auto const wrong = [&](void (ReplicatedFieldPlan::*call)(FieldView const&) const) {
      TestField<double> field(Box::from_extents(extents), {}, MemoryShape::dense(2, 0), 1);
      auto view = field.view();
      if (is_last) view.extents[1] -= 1;
      return rule_of([&] { (plan.*call)(view); });
    };
    for (auto call :
         {&ReplicatedFieldPlan::broadcast, &ReplicatedFieldPlan::sum_reduce, &ReplicatedFieldPlan::all_sum_reduce}) {
      auto const rule = wrong(call);
      // Ranks that need nothing of the last one rightly go on.
      if (is_last) {
        EXPECT_EQ(rule, "FieldMismatch");
      } else if (call == &ReplicatedFieldPlan::all_sum_reduce) {
        EXPECT_EQ(rule, "PeerRefused");
      }
    }
    expect_sums<double>(random, comm, plan, extents, 0);
    expect_broadcast<double>(random, plan, extents, comm.rank() == 0);
  }
}

}  // namespace
