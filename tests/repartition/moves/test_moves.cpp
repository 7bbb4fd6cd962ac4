// SPDX-License-Identifier: BSD-3-Clause
// Any layout to any other: every cell by formula, compositions, ways back, and replicas.
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "moves_support.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <optional>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::draw;
using test::Geometry;
using test::MemoryShape;
using test::numbered;
using test::Random;
using test::rule_of;
using test::TestField;
using test::Trial;

namespace {

void expect_moved(Random& random, RepartitionPlan const& plan, Geometry const& geometry, DType dtype) {
  auto const image = [&](Indices const& cell) { return geometry.image(cell); };
  test::with_element(dtype, [&]<class T>(T) { test::expect_moved<T>(random, plan, image, dtype); });
}

TEST(Moves, take_every_selected_cell_from_where_the_formula_says) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(101);
  for (int t = 0; t < 2 * test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    auto& random = trial.random;
    auto const geometry = test::random_geometry(random);
    auto const from = test::any_layout(random, comm.num_ranks(), geometry.old_extents);
    auto const to = test::any_layout(random, comm.num_ranks(), geometry.new_extents);
    SCOPED_TRACE(trial.name + ": " + to_string(from) + " to " + to_string(to));
    RepartitionPlan const plan(comm, from, to, geometry.options);

    expect_moved(random, plan, geometry, test::dtype_number(t));

    if (testing::Test::HasFailure()) return;
  }
}

TEST(Moves, fill_boxes_of_ones_own_that_overlap_and_leave_cells_out) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(103);
  for (int t = 0; t < test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    auto& random = trial.random;
    auto const geometry = test::random_geometry(random, test::NewGrid::permuted);
    auto const from = test::any_layout(random, comm.num_ranks(), geometry.old_extents);
    std::vector<Box> boxes;
    for (int r = 0; r < comm.num_ranks(); ++r) boxes.push_back(test::random_box(random, geometry.new_extents));
    auto const& own = boxes[std::size_t(comm.rank())];
    SCOPED_TRACE(trial.name + ": " + to_string(from) + " to " + to_string(own));
    RepartitionPlan const plan(comm, from, own, geometry.options);

    expect_moved(random, plan, geometry, test::dtype_number(t));

    if (testing::Test::HasFailure()) return;
  }
}

TEST(Moves, in_two_steps_equal_one_step) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(107);
  for (int t = 0; t < test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    auto& random = trial.random;
    int const ndim = int(draw(random, 1, 3));
    auto const extents = test::random_extents(random, ndim, ndim == 1 ? 20 : 7);
    auto const first = test::random_permutation(random, ndim);
    auto const second = test::random_permutation(random, ndim);
    auto between = extents;
    auto last = extents;
    auto both = first;
    for (int a = 0; a < ndim; ++a) between[a] = extents[int(first[a])];
    for (int a = 0; a < ndim; ++a) last[a] = between[int(second[a])];
    for (int a = 0; a < ndim; ++a) both[a] = first[int(second[a])];
    auto const a = test::any_layout(random, comm.num_ranks(), extents);
    auto const b = test::any_layout(random, comm.num_ranks(), between);
    auto const c = test::any_layout(random, comm.num_ranks(), last);
    SCOPED_TRACE(trial.name + ": " + to_string(a) + " to " + to_string(b) + " to " + to_string(c));
    RepartitionPlan const ab(comm, a, b, {.permutation = first});
    RepartitionPlan const bc(comm, b, c, {.permutation = second});
    RepartitionPlan const ac(comm, a, c, {.permutation = both});
    auto const batch = test::random_batch(random);
    auto const dtype = test::dtype_number(t);
    auto const shape = test::random_shape(random, ndim, batch.size());

    test::with_element(dtype, [&]<class T>(T) {
      auto from = numbered<T>(a.owned(comm.rank()), batch, test::random_shape(random, ndim, batch.size()));
      TestField<T> middle(b.owned(comm.rank()), batch, test::random_shape(random, ndim, batch.size()), T{});
      TestField<T> twice(c.owned(comm.rank()), batch, shape, T{});
      auto once = twice;
      ab.apply(from.view(dtype), middle.view(dtype));
      bc.apply(middle.view(dtype), twice.view(dtype));
      ac.apply(from.view(dtype), once.view(dtype));

      ASSERT_TRUE(twice.holds(once)) << to_string(dtype);
      // Neither step did nothing.
      twice.set(twice.cover(), [&](auto const& at, auto const& cell) {
        auto image = cell;
        for (int axis = 0; axis < ndim; ++axis) image[int(both[axis])] = cell[axis];
        return bits_of<T>(at, image);
      });
      ASSERT_TRUE(once.holds(twice)) << to_string(dtype);
    });

    if (testing::Test::HasFailure()) return;
  }
}

TEST(Moves, from_some_ranks_to_others_and_back_are_the_identity) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(109);
  for (int t = 0; t < test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    auto& random = trial.random;
    auto const extents = test::random_extents(random, 2, 9);
    // Disjoint sets where there are ranks for two.
    auto const order = test::random_permutation(random, comm.num_ranks());
    Index const num_first = draw(random, 1, std::max(1, comm.num_ranks() - 1));
    std::vector<int> here;
    std::vector<int> there;
    for (int r = 0; r < comm.num_ranks(); ++r) (r < num_first ? here : there).push_back(int(order[r]));
    if (there.empty()) there = here;
    auto const m = test::layout_on(random, here, comm.num_ranks(), extents);
    auto const n = test::layout_on(random, there, comm.num_ranks(), extents);
    SCOPED_TRACE(trial.name + ": " + to_string(m) + " to " + to_string(n));
    RepartitionPlan const away(comm, m, n);
    RepartitionPlan const back(comm, n, m);
    auto const batch = test::random_batch(random);
    auto const dtype = test::dtype_number(t + 5);

    test::with_element(dtype, [&]<class T>(T) {
      auto from = numbered<T>(m.owned(comm.rank()), batch, test::random_shape(random, 2, batch.size()));
      TestField<T> to(n.owned(comm.rank()), batch, test::random_shape(random, 2, batch.size()), T{});
      auto returned = from;
      returned.set(returned.cover(), [](auto const&, auto const&) { return T{}; });
      auto inverse = returned;
      away.apply(from.view(dtype), to.view(dtype));
      back.apply(to.view(dtype), returned.view(dtype));
      away.apply_inverse(inverse.view(dtype), to.view(dtype));

      ASSERT_TRUE(returned.holds(from)) << to_string(dtype);
      ASSERT_TRUE(inverse.holds(from)) << to_string(dtype);
    });

    if (testing::Test::HasFailure()) return;
  }
}

/// Boxes of all ranks, which may overlap.
struct Replicas {
  Geometry geometry;
  Layout from;
  std::vector<Box> boxes;

  /// Calls `visit(rank, new cell)` for the images of each old cell, in order of ranks.
  template <class Visit>
  void for_each_image(Indices const& old_cell, Visit&& visit) const {
    for (std::size_t r = 0; r < boxes.size(); ++r)
      test::for_each_cell(boxes[r], [&](auto const& cell) {
        if (geometry.image(cell) == old_cell) visit(int(r), cell);
      });
  }
};

Replicas random_replicas(Random& random, int num_ranks) {
  auto const geometry = test::random_geometry(random, test::NewGrid::permuted);
  auto const from = test::any_layout(random, num_ranks, geometry.old_extents);
  std::vector<Box> boxes;
  for (int r = 0; r < num_ranks; ++r) boxes.push_back(test::random_box(random, geometry.new_extents));
  return {geometry, from, boxes};
}

/// What the replica of rank `rank` holds: small integers.
double held(int rank, Indices const& b, Indices const& cell) {
  return double(bits_of<std::int8_t>(b, cell, std::uint64_t(rank) + 100));
}

TEST(Moves, back_take_the_value_of_the_highest_rank_and_the_factor_once) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(113);
  for (int t = 0; t < test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    auto& random = trial.random;
    auto const replicas = random_replicas(random, comm.num_ranks());
    RepartitionPlan const plan(comm, replicas.from, replicas.boxes[std::size_t(comm.rank())],
                               replicas.geometry.options);
    auto const batch = test::random_batch(random, 2);
    int const ndim = replicas.from.ndim();
    TestField<double> to(plan.target_box(), batch, test::random_shape(random, ndim, batch.size()), -7);
    to.set(plan.target_box(), [&](auto const& b, auto const& cell) { return held(comm.rank(), b, cell); });
    TestField<double> from(plan.source_box(), batch, test::random_shape(random, ndim, batch.size()), -8);
    from.set(plan.source_box(), [](auto const& b, auto const& cell) { return held(77, b, cell); });
    for (double const beta : {0.0, 2.0}) {
      SCOPED_TRACE(trial.name + ": " + to_string(replicas.from) + ", beta " + std::to_string(beta));
      auto target = from;
      auto expected = from;
      expected.for_each(plan.source_box(), [&](auto const& b, auto const& cell) {
        replicas.for_each_image(cell, [&](int rank, auto const& image) {
          expected.at(b, cell) = 3 * held(rank, b, image) + beta * held(77, b, cell);
        });
      });

      plan.apply_inverse(target.view(), to.view(), {.alpha = 3, .beta = beta});

      ASSERT_TRUE(target.holds(expected));
    }
  }
}

TEST(Moves, transposed_add_all_images_of_a_cell) {
  auto const comm = Comm::world();
  auto const seed = test::seed_or(127);
  for (int t = 0; t < test::num_move_trials(comm); ++t) {
    Trial trial(seed, t);
    auto& random = trial.random;
    auto const replicas = random_replicas(random, comm.num_ranks());
    RepartitionPlan const plan(comm, replicas.from, replicas.boxes[std::size_t(comm.rank())],
                               replicas.geometry.options);
    auto const batch = test::random_batch(random, 2);
    int const ndim = replicas.from.ndim();
    TestField<double> to(plan.target_box(), batch, test::random_shape(random, ndim, batch.size()), -7);
    to.set(plan.target_box(), [&](auto const& b, auto const& cell) { return held(comm.rank(), b, cell); });
    TestField<double> from(plan.source_box(), batch, test::random_shape(random, ndim, batch.size()), -8);
    from.set(plan.source_box(), [](auto const& b, auto const& cell) { return held(77, b, cell); });
    for (std::optional<double> const beta : {std::optional<double>{}, {0.0}, {1.0}, {-3.0}}) {
      SCOPED_TRACE(trial.name + ": " + to_string(replicas.from) + ", beta " + std::to_string(beta.value_or(99)));
      auto sums = from;
      auto expected = from;
      // What is not read must not leak.
      if (beta == 0.0) sums.set(plan.source_box(), [](auto const&, auto const&) { return std::nan(""); });
      expected.for_each(plan.source_box(), [&](auto const& b, auto const& cell) {
        double sum = beta.value_or(1) * from.at(b, cell) + 0.0;
        replicas.for_each_image(cell, [&](int rank, auto const& image) { sum += 2 * held(rank, b, image); });
        expected.at(b, cell) = sum;
      });

      plan.apply_adjoint(sums.view(), to.view(), {.alpha = 2, .beta = beta});

      // Zeros may have either sign.
      sums.for_each(plan.source_box(), [&](auto const& b, auto const& cell) { sums.at(b, cell) += 0.0; });
      ASSERT_TRUE(sums.holds(expected));
    }
  }
}

TEST(Moves, refuse_a_view_of_the_selected_cells_where_one_of_the_box_belongs) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{4 * n, 5});
  auto const all = Box::from_extents({4 * n, 5});
  // Every other row: 2 of the 4 rows of each rank.
  RepartitionPlan const plan(comm, rows, rows,
                             {.from = Selection::every_nth(all, {2, 1}), .to = Selection::every_nth(all, {2, 1})});
  auto from = numbered<double>(plan.source_box(), {}, MemoryShape::dense(2, 0));
  TestField<double> whole(plan.target_box(), {}, MemoryShape::dense(2, 0), 0);
  TestField<double> small(Box::from_extents({2, 5}), {}, MemoryShape::dense(2, 0), 0);
  auto const untouched = small;

  auto const thrown = test::thrown_by([&] { plan.apply(from.view(), small.view()); });

  EXPECT_EQ(thrown.rule, "FieldMismatch");
  EXPECT_NE(thrown.text.find(to_string(plan.target_box())), std::string::npos) << thrown.text;
  EXPECT_TRUE(small.holds(untouched));
  EXPECT_EQ(rule_of([&] { plan.apply(from.view(), whole.view()); }), "nothing was thrown");
}

TEST(Moves, refuse_selections_that_leave_the_grid_or_are_too_long_to_count) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{9, 5});
  constexpr Index huge = Index(1) << 40U;
  struct Case {
    Indices first;
    Indices step;
    Indices extents;
    char const* rule;
  };
  for (auto const& [first, step, extents, rule] : std::vector<Case>{
           {{0, 0}, {2, 1}, {5, 5}, "nothing was thrown"},
           {{8, 4}, {-2, -1}, {5, 5}, "nothing was thrown"},
           {{8, 0}, {huge, 1}, {1, 5}, "BadSelection"},
           {{8, 0}, {-100, 1}, {1, 5}, "nothing was thrown"},
           {{0, 0}, {2, 1}, {6, 5}, "BadSelection"},
           {{7, 4}, {-2, -1}, {5, 5}, "BadSelection"},
           {{-1, 0}, {1, 1}, {1, 5}, "BadSelection"},
           {{9, 0}, {1, 1}, {1, 5}, "BadSelection"},
           {{0, 0}, {0, 1}, {1, 5}, "BadSelection"},
           {{0, 0}, {1, 1}, {-1, 5}, "BadSelection"},
           {{0}, {1}, {9}, "BadSelection"},
           {{0, 0}, {huge, 1}, {2, 5}, "BadSelection"},
           {{0, 0}, {huge << 22U, 1}, {3, 5}, "BadSelection"},
           {{huge, 0}, {-huge, 1}, {2, 5}, "BadSelection"},
           {{0, 0}, {1, 1}, {0, 5}, "nothing was thrown"},
       }) {
    Selection const selection{first, step, extents};
    auto const to =
        Layout(ProcessGrid{comm.num_ranks(), 1},
               extents.size() == 2 && extents[0] > 0 ? Indices{std::min<Index>(extents[0], 9), 5} : Indices{9, 5});
    Selection const into{{0, 0}, {1, 1}, extents};

    EXPECT_EQ(rule_of([&] { RepartitionPlan(comm, rows, to, {.from = selection, .to = into}); }), rule)
        << to_string(selection);
  }
}

}  // namespace
