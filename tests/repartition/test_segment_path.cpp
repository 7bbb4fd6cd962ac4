// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/detail/strided.hpp>
#include <graticule/repartition/plan.hpp>

#include "engine/segment_path.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

using namespace graticule;

namespace {

constexpr std::size_t num_bytes = 1000;

/// Makes calls whose copies take `cached` or `past` seconds; true for each call past the cache.
std::vector<bool> calls(detail::SegmentPath& path, int count, double cached, double past) {
  std::vector<bool> result;
  for (int c = 0; c < count; ++c) {
    path.begin_call();
    result.push_back(path.past_cache());
    path.add(num_bytes, path.past_cache() ? past : cached);
  }
  return result;
}

}  // namespace

TEST(SegmentPath, tries_both_and_keeps_the_faster) {
  detail::SegmentPath path;
  EXPECT_EQ(calls(path, 6, 1.0, 2.0), (std::vector<bool>{false, true, false, false, false, false}));
  detail::SegmentPath other;
  EXPECT_EQ(calls(other, 6, 2.0, 1.0), (std::vector<bool>{false, true, false, true, true, true}));
}

TEST(SegmentPath, does_not_judge_by_the_first_call) {
  detail::SegmentPath path;
  (void)calls(path, 1, 10.0, 2.0);
  EXPECT_EQ(calls(path, 4, 1.0, 2.0), (std::vector<bool>{true, false, false, false}));
}

TEST(SegmentPath, changes_at_once_when_its_way_becomes_slower_and_at_the_next_trial_when_the_other_becomes_faster) {
  detail::SegmentPath path;
  (void)calls(path, 10, 1.0, 2.0);
  EXPECT_EQ(calls(path, 3, 3.0, 2.0), (std::vector<bool>{false, true, true}));
  detail::SegmentPath patient;
  (void)calls(patient, 31, 1.0, 2.0);
  EXPECT_EQ(calls(patient, 3, 1.0, 0.5), (std::vector<bool>{true, true, true}));
}

TEST(SegmentPath, compares_seconds_per_byte) {
  detail::SegmentPath path;
  path.begin_call();
  path.begin_call();  // past the cache: 1 s for 1,000 bytes
  path.add(1000, 1.0);
  path.begin_call();  // cached: 2 s for 4,000 bytes
  path.add(4000, 2.0);
  path.begin_call();
  EXPECT_FALSE(path.past_cache());
}

TEST(SegmentPath, does_not_count_calls_without_copies) {
  detail::SegmentPath path;
  for (int c = 0; c < 40; ++c) {
    path.begin_call();
    EXPECT_FALSE(path.past_cache()) << "call " << c;
  }
  EXPECT_EQ(calls(path, 5, 1.0, 2.0), (std::vector<bool>{false, true, false, false, false}));
}

TEST(SegmentPath, a_large_call_moves_the_same_cells_either_way) {
  auto const comm = Comm::world();
  Index const n = 512;
  Index const levels = 18;  // 18 MiB per rank: more than is written through the caches
  Layout const rows(ProcessGrid({comm.num_ranks(), 1}), {n, n});
  Layout const columns(ProcessGrid({1, comm.num_ranks()}), {n, n});
  RepartitionPlan const plan(comm, rows, columns);
  Box const from = rows.owned(comm.rank());
  Box const to = columns.owned(comm.rank());
  auto const value = [&](Index i, Index j, Index k, int call) { return double(((i * n + j) * levels + k) * 8 + call); };
  std::vector<double> source(std::size_t(from.num_cells() * levels));
  std::vector<double> target(std::size_t(to.num_cells() * levels));
  for (int call = 0; call < 4; ++call) {
    std::size_t at = 0;
    for (Index i = from.lo(0); i < from.hi(0); ++i)
      for (Index j = from.lo(1); j < from.hi(1); ++j)
        for (Index k = 0; k < levels; ++k) source[at++] = value(i, j, k, call);
    auto const view = [&](std::vector<double>& cells, Box const& box) {
      Indices const extents{box.extent(0), box.extent(1), levels};
      return field_view(cells.data(), extents, row_major_strides(extents), {0, 1});
    };
    plan.apply(view(source, from), view(target, to));
    Index num_wrong = 0;
    at = 0;
    for (Index i = to.lo(0); i < to.hi(0); ++i)
      for (Index j = to.lo(1); j < to.hi(1); ++j)
        for (Index k = 0; k < levels; ++k) num_wrong += target[at++] != value(i, j, k, call) ? 1 : 0;
    EXPECT_EQ(num_wrong, 0) << "call " << call;
  }
  EXPECT_GE(Index(target.size() * sizeof(double)), detail::least_streamed_bytes);
  EXPECT_GT(plan.stats().node_packed.num_messages, 0);
}
