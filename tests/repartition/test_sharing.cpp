// SPDX-License-Identifier: BSD-3-Clause
// Fields of one call that have memory in common.
#include <graticule/repartition/collectives.hpp>
#include <graticule/repartition/detail/permutation_map.hpp>
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <vector>

using namespace graticule;
using test::bits_of;
using test::MemoryShape;
using test::rule_of;
using test::TestField;

namespace {

char const* const apart = "nothing was thrown";

/// Where the fields of a test lie; see `TestField`.
FieldView placed(FieldView view) {
  TestField<double> like(Box({0}, {1}), {}, MemoryShape::dense(1, 0), 0.0);
  view.space = like.view().space;
  return view;
}

FieldView dense(std::vector<double>& memory, Indices const& extents, Index offset = 0) {
  return placed(field_view(memory.data() + offset, extents, extents.size()));
}

std::vector<double> numbers(std::size_t size) {
  std::vector<double> result(size);
  std::iota(result.begin(), result.end(), 1.0);
  return result;
}

/// What the peers of a rank get that refuses a call.
std::string told(bool refuses) {
  if (refuses) return "AliasedFields";
  return std::getenv("GRATICULE_CHECK") ? "CallDisagreement" : "PeerRefused";
}

TEST(Sharing, of_source_and_target_of_a_transpose_is_refused_by_name) {
  auto const comm = Comm::world();
  Index const n = 4 * comm.num_ranks();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{n, n});
  RepartitionPlan const turned(comm, rows, rows, {.permutation = {1, 0}});
  auto memory = numbers(std::size_t(4 * n));
  auto const before = memory;
  auto const v = dense(memory, turned.source_box().extents());

  EXPECT_EQ(rule_of([&] { turned.apply(v, v); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { turned.start(v, v).wait(); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { turned.apply_adjoint(v, v); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { turned.apply_inverse(v, v); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { turned.apply(v, v, {.alpha = 2.0, .beta = 1.0}); }), "AliasedFields");
  EXPECT_EQ(memory, before);
  // Fields that are refused once are refused again, and the next good ones go through.
  EXPECT_EQ(rule_of([&] { turned.apply(v, v); }), "AliasedFields");
  std::vector<double> other(memory.size(), 0.0);
  turned.apply(v, dense(other, turned.target_box().extents()));
  EXPECT_EQ(memory, before);
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 4; ++j)
      EXPECT_EQ(other[std::size_t(i * n + comm.rank() * 4 + j)], before[std::size_t(j * n + comm.rank() * 4 + i)]);
}

TEST(Sharing, of_one_element_is_found) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{3 * comm.num_ranks(), 5});
  Layout const back(ProcessGrid::on_ranks({comm.num_ranks(), 1},
                                          [&] {
                                            std::vector<int> ranks;
                                            for (int r = comm.num_ranks() - 1; r >= 0; --r) ranks.push_back(r);
                                            return ranks;
                                          }()),
                    Indices{3 * comm.num_ranks(), 5});
  RepartitionPlan const plan(comm, rows, back, {.from = Selection::every_nth(rows.global(), {-1, 1})});
  auto memory = numbers(60);

  EXPECT_EQ(rule_of([&] { plan.apply(dense(memory, {3, 5}), dense(memory, {3, 5}, 14)); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { plan.apply(dense(memory, {3, 5}), dense(memory, {3, 5}, 15)); }), apart);
  EXPECT_EQ(rule_of([&] { plan.apply(dense(memory, {3, 5}, 14), dense(memory, {3, 5})); }), "AliasedFields");
}

TEST(Sharing, between_fields_of_a_call_is_refused_where_one_is_written) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{2 * comm.num_ranks(), 6});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{2 * comm.num_ranks(), 6});
  RepartitionPlan const plan(comm, rows, columns);
  auto const source = plan.source_box().extents();
  auto const target = plan.target_box().extents();
  auto a = numbers(24);
  auto b = a;
  std::vector<double> c(60, 0.0);
  std::vector<double> d(60, 0.0);
  auto const call = [&](FieldView const& from, FieldView const& to) {
    return std::vector<RepartitionField>{{.from = dense(a, source), .to = dense(c, target)}, {.from = from, .to = to}};
  };
  auto const same_source = call(dense(a, source), dense(d, target));
  auto const same_target = call(dense(b, source), dense(c, target));
  auto const twice = call(dense(a, source), dense(c, target));

  EXPECT_EQ(rule_of([&] { plan.apply(same_source); }), apart);
  EXPECT_EQ(rule_of([&] { plan.apply_adjoint(same_source); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { plan.apply_inverse(same_source); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { plan.apply(same_target); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { plan.apply_adjoint(same_target); }), apart);
  EXPECT_EQ(rule_of([&] { plan.apply(twice); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { plan.apply_adjoint(twice); }), "AliasedFields");
  // The target of one is the source of the other.
  if (source == target) {
    EXPECT_EQ(rule_of([&] { plan.apply(call(dense(c, source), dense(a, target))); }), "AliasedFields");
  }
}

TEST(Sharing, is_none_between_channels_of_one_array_and_parts_of_one_field) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Layout const rows(ProcessGrid{n, 1}, Indices{2 * n, 6});
  Layout const columns(ProcessGrid{1, n}, Indices{2 * n, 6});
  RepartitionPlan const plan(comm, rows, columns);
  constexpr Index channels = 5;
  auto const channel = [&](std::vector<double>& memory, Box const& box, Index c) {
    return placed(field_view(memory.data() + c, box.extents(), {box.extent(1) * channels, channels}, {0, 1}));
  };
  auto from = numbers(std::size_t(plan.source_box().num_cells() * channels));
  std::vector<double> to(std::size_t(plan.target_box().num_cells() * channels), 0.0);
  std::vector<RepartitionField> fields;
  for (Index c = 0; c < channels; ++c)
    fields.push_back({.from = channel(from, plan.source_box(), c), .to = channel(to, plan.target_box(), c)});

  plan.apply(fields);
  auto const sent = from;
  plan.apply_adjoint(fields);

  for (std::size_t i = 0; i < from.size(); ++i) ASSERT_EQ(from[i], 2 * sent[i]) << "element " << i;
  fields.back().to = channel(to, plan.target_box(), channels - 2);
  EXPECT_EQ(rule_of([&] { plan.apply(fields); }), "AliasedFields");
}

TEST(Sharing, of_target_boxes_of_one_rank_is_refused_and_parts_of_one_array_are_filled) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{2 * comm.num_ranks(), 6});
  std::vector<Box> const boxes{Box({0, 0}, {1, 6}), Box({1, 0}, {2, 4})};
  RepartitionPlan const plan(comm, rows, boxes);
  auto from = numbers(12);
  for (auto& number : from) number += 100.0 * comm.rank();
  std::vector<double> all(24, 0.0);
  Box const covered({0, 0}, {4, 6});
  auto const whole = dense(all, covered.extents());
  std::vector<FieldView> const views{whole.part(covered, boxes[0]), whole.part(covered, boxes[1])};
  std::vector<FieldView> const meeting{views[0], whole.part(covered, Box({0, 2}, {1, 6}))};

  plan.apply(dense(from, {2, 6}), views);

  for (int i = 0; i < 24; ++i) EXPECT_EQ(all[std::size_t(i)], i < 10 ? double(i + 1) : 0.0) << i;
  EXPECT_EQ(rule_of([&] { plan.apply(dense(from, {2, 6}), meeting); }), "AliasedFields");
}

TEST(Sharing, is_allowed_where_every_cell_stays_where_it_is) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{3 * comm.num_ranks(), 4});
  RepartitionPlan const same(comm, rows, rows);
  auto memory = numbers(12);
  auto const before = memory;
  auto const v = dense(memory, {3, 4});

  for (int repeat = 0; repeat < 2; ++repeat) {
    same.apply(v, v);
    same.apply_inverse(v, v);
  }
  EXPECT_EQ(memory, before);
  // Not where values change, or are added.
  EXPECT_EQ(rule_of([&] { same.apply(v, v, {.alpha = 2.0}); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { same.apply_adjoint(v, v); }), "AliasedFields");
  same.apply(v, v);
  EXPECT_EQ(memory, before);
  // The same cells in another place.
  std::vector<double> large(20, 0.0);
  EXPECT_EQ(rule_of([&] { same.apply(dense(large, {3, 4}), dense(large, {3, 4}, 4)); }), "AliasedFields");
}

TEST(Sharing, of_parts_and_whole_gathers_and_scatters_in_place) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  ShardsPlan const shards(comm, Layout(ProcessGrid{n, 1}, Indices{2 * n + 1, 3}));
  auto const cells = std::size_t(shards.whole_box().num_cells());
  auto const expected = numbers(cells);
  std::vector<double> memory(cells, -1.0);
  auto const whole = dense(memory, shards.whole_box().extents());
  auto const part = whole.part(shards.whole_box(), shards.part_box());
  auto const reset = [&] {
    std::fill(memory.begin(), memory.end(), -1.0);
    for (Index i = 3 * shards.part_box().lo(0); i < 3 * shards.part_box().hi(0); ++i)
      memory[std::size_t(i)] = expected[std::size_t(i)];
  };

  for (int repeat = 0; repeat < 2; ++repeat) {
    reset();
    shards.all_gather(part, whole);
    EXPECT_EQ(memory, expected);
  }
  reset();
  shards.gather(part, whole);
  if (comm.rank() == shards.root()) {
    EXPECT_EQ(memory, expected);
  }
  auto const gathered = memory;
  shards.scatter(whole, part);
  EXPECT_EQ(memory, gathered);
  // A sum needs the whole of each rank while it is written.
  EXPECT_EQ(rule_of([&] { shards.reduce_scatter(whole, part); }), "AliasedFields");
}

TEST(Sharing, on_one_rank_ends_the_call_on_its_peers) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peers";
  for (Index const columns_per_rank : {3, 20000}) {
    Indices const extents{comm.num_ranks(), columns_per_rank * comm.num_ranks()};
    RepartitionPlan const plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, extents),
                               Layout(ProcessGrid{1, comm.num_ranks()}, extents));
    bool const refuses = comm.rank() == 0;
    TestField<double> from(plan.source_box(), {}, MemoryShape::dense(2, 0), 0);
    TestField<double> to(plan.target_box(), {}, MemoryShape::dense(2, 0), 0);
    from.set(plan.source_box(), [](auto const& b, auto const& cell) { return bits_of<double>(b, cell); });
    auto expected = to;
    expected.set(plan.target_box(), [](auto const& b, auto const& cell) { return bits_of<double>(b, cell); });
    auto inside = to.view();
    if (refuses) inside.data = from.view().data;
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_EQ(rule_of([&] { plan.apply(from.view(), inside); }), told(refuses));
      EXPECT_EQ(rule_of([&] { plan.apply_adjoint(from.view(), inside); }), told(refuses));

      plan.apply(from.view(), to.view());

      EXPECT_TRUE(to.holds(expected));
    }
  }
}

/// A plan whose adjoint is told at its end where it adds to.
TEST(Sharing, of_memory_that_an_adjoint_is_given_at_its_end_is_refused_there) {
  auto const comm = Comm::world();
  Layout const cells(ProcessGrid{comm.num_ranks()}, Indices{4 * comm.num_ranks()});
  Box const own = cells.owned(comm.rank());
  PullPlan const plan(comm, {cells, {{own, {{own, {own}}}, detail::permutation_map({0})}}, 1, AfterAdjoint::zero});
  std::vector<double> memory(20, 1.0);
  auto const view = [&](Index offset) { return dense(memory, {4}, offset); };
  std::vector<FieldView> const targets{view(0), view(4)};
  auto const none = [&] {
    auto result = view(0);
    result.data = nullptr;
    return result;
  }();
  std::vector<PullField> const fields{{none, std::span(targets).first(1)}, {none, std::span(targets).last(1)}};

  auto pending = plan.start_adjoint(fields);
  EXPECT_EQ(rule_of([&] { pending.wait_into(std::vector{view(8), view(10)}); }), "AliasedFields");
  EXPECT_EQ(rule_of([&] { pending.wait_into(std::vector{view(8), view(3)}); }), "AliasedFields");
  pending.wait_into(std::vector{view(8), view(12)});

  for (int i = 0; i < 20; ++i) EXPECT_EQ(memory[std::size_t(i)], i < 8 ? 0.0 : i < 16 ? 2.0 : 1.0) << i;
}

}  // namespace
