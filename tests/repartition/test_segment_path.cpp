// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/detail/strided.hpp>
#include <graticule/repartition/plan.hpp>

#include "engine/segment_path.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

using namespace graticule;

namespace {

constexpr std::size_t num_bytes = 1000;

/// Packs segments, which takes `cached` or `past` seconds; true for each one that goes past the cache.
std::vector<bool> segments(detail::SegmentPath& path, int count, double cached, double past) {
  std::vector<bool> result;
  for (int s = 0; s < count; ++s) {
    path.begin_segment();
    result.push_back(path.past_cache());
    path.end_segment(num_bytes, path.past_cache() ? past : cached);
  }
  return result;
}

/// `value` for the first `count` segments of the result, and so on.
std::vector<bool> pattern(std::vector<std::pair<int, bool>> const& runs) {
  std::vector<bool> result;
  for (auto const& [count, value] : runs) result.insert(result.end(), std::size_t(count), value);
  return result;
}

}  // namespace

TEST(SegmentPath, tries_both_and_keeps_the_faster) {
  detail::SegmentPath path;
  detail::SegmentPath other;

  EXPECT_EQ(segments(path, 72, 1.0, 2.0), pattern({{4, false}, {4, true}, {56, false}, {4, true}, {4, false}}));
  EXPECT_EQ(segments(other, 72, 2.0, 1.0), pattern({{4, false}, {60, true}, {4, false}, {4, true}}));
}

TEST(SegmentPath, does_not_judge_by_the_first_two_segments_of_a_way) {
  detail::SegmentPath path;
  (void)segments(path, 2, 10.0, 2.0);
  (void)segments(path, 2, 1.0, 2.0);
  (void)segments(path, 2, 1.0, 0.1);

  EXPECT_EQ(segments(path, 4, 1.0, 2.0), pattern({{2, true}, {2, false}}));
}

TEST(SegmentPath, does_not_judge_by_an_interrupted_copy) {
  detail::SegmentPath path;
  (void)segments(path, 20, 1.0, 2.0);
  (void)segments(path, 1, 50.0, 2.0);

  EXPECT_EQ(segments(path, 20, 1.0, 2.0), pattern({{20, false}}));
}

TEST(SegmentPath, changes_soon_when_its_way_becomes_slower_and_at_the_next_trial_when_the_other_becomes_faster) {
  detail::SegmentPath path;
  detail::SegmentPath patient;
  (void)segments(path, 20, 1.0, 2.0);
  (void)segments(patient, 64, 1.0, 2.0);

  EXPECT_EQ(segments(path, 8, 3.0, 2.0), pattern({{4, false}, {4, true}}));
  EXPECT_EQ(segments(patient, 20, 1.0, 0.5), pattern({{20, true}}));
}

TEST(SegmentPath, keeps_its_way_where_the_other_is_hardly_faster) {
  detail::SegmentPath path;
  (void)segments(path, 8, 1.0, 0.98);

  EXPECT_EQ(segments(path, 20, 1.0, 0.98), pattern({{20, false}}));
}

TEST(SegmentPath, compares_seconds_per_byte) {
  detail::SegmentPath path;
  for (int s = 0; s < 8; ++s) {
    path.begin_segment();
    // Past the cache 1 s for 1,000 bytes, cached 2 s for 4,000.
    path.end_segment(path.past_cache() ? 1000 : 4000, path.past_cache() ? 1.0 : 2.0);
  }

  path.begin_segment();

  EXPECT_FALSE(path.past_cache());
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
