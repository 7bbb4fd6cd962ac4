// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/ordered_sum.hpp>
#include <graticule/messages/detail/transport_name.hpp>
#include <graticule/messages/transport.hpp>

#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

using namespace graticule;
using messages::OrderedSum;

namespace {

/// Values whose sum depends on the order of its terms.
double value(int rank, Index i, int number) {
  return std::sin(double(7 * i + number)) * std::pow(10.0, double((rank * 5 + i) % 17) - 8.0);
}

std::vector<double> values_of(int rank, Index count, int number) {
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(value(rank, i, number));
  return values;
}

/// Rank r's values times `weights[r]`, in order of ranks.
struct Weighted {
  std::vector<double> weights;

  void operator()(messages::SumPart const& part) const {
    for (Index i = 0; i < part.count; ++i) {
      double sum = 0;
      for (std::size_t r = 0; r < part.terms.size(); ++r)
        sum += weights[r] * reinterpret_cast<double const*>(part.terms[r])[i];
      // The last one may be the term itself.
      for (auto* const result : part.results) reinterpret_cast<double*>(result)[i] = sum;
    }
  }
};

std::vector<double> weights_of(int num_ranks) {
  std::vector<double> weights;
  for (int r = 0; r < num_ranks; ++r) weights.push_back(1.0 / (r + 1));
  return weights;
}

std::byte* bytes(std::vector<double>& values) { return reinterpret_cast<std::byte*>(values.data()); }

void finish(OrderedSum& sum) {
  while (!sum.advance()) std::this_thread::yield();
}

bool uses_node() { return messages::transport_from_environment() != messages::Transport::point_to_point; }

TEST(OrderedSum, adds_in_order_of_ranks_by_lanes_and_through_memory_of_the_node) {
  Comm const comm = Comm::world();
  auto const weights = weights_of(comm.num_ranks());
  OrderedSum by_lanes(comm, sizeof(double));
  OrderedSum on_node(comm, sizeof(double));
  OrderedSum::share_on_node(comm, {{&on_node, 70001}});
  bool const alone = comm.num_ranks() == 1;
  EXPECT_EQ(on_node.room() > 0, !alone && uses_node());
  int number = 0;
  for (Index const count : {0, 1, 2, 7, 1003, 70001}) {
    ++number;
    std::vector<double> expected(std::size_t(count), 0.0);
    for (int r = 0; r < comm.num_ranks(); ++r)
      for (Index i = 0; i < count; ++i) expected[std::size_t(i)] += weights[std::size_t(r)] * value(r, i, number);
    for (auto* const sum : {&by_lanes, &on_node}) {
      auto values = values_of(comm.rank(), count, number);
      auto const before = test::mpi_calls().sends;

      sum->start(bytes(values), count, Weighted{weights});
      finish(*sum);

      EXPECT_EQ(std::memcmp(values.data(), expected.data(), sizeof(double) * values.size()), 0) << count;
      bool const sends = sum == &by_lanes || on_node.room() == 0;
      EXPECT_EQ(test::mpi_calls().sends - before, sends ? sum->sent().messages : 0);
    }
    EXPECT_EQ(by_lanes.sent().messages, on_node.sent().messages);
    EXPECT_EQ(by_lanes.sent().bytes, on_node.sent().bytes);
    Index const own = by_lanes.part_begin(count, comm.rank() + 1) - by_lanes.part_begin(count, comm.rank());
    EXPECT_EQ(by_lanes.sent().bytes, (count - own + (comm.num_ranks() - 1) * own) * Index(sizeof(double)));
  }
}

TEST(OrderedSum, of_many_ranks_sends_few_messages_with_the_same_bits) {
  Comm const comm = Comm::world();
  int const num_ranks = comm.num_ranks();
  if (num_ranks <= OrderedSum::most_direct_ranks) GTEST_SKIP() << "for more than 16 ranks";
  auto const weights = weights_of(num_ranks);
  OrderedSum sum(comm, sizeof(double));
  Index const most_relayed = num_ranks * OrderedSum::most_relayed_bytes / Index(sizeof(double));
  int const root = int(std::ceil(std::sqrt(double(num_ranks))));
  // Parts of no value on some ranks, of one each, and the longest that are relayed.
  for (Index const count : {Index(0), Index(5), Index(num_ranks), Index(4096), most_relayed, most_relayed + 1}) {
    int const number = int(count);
    std::vector<double> expected(std::size_t(count), 0.0);
    for (int r = 0; r < num_ranks; ++r)
      for (Index i = 0; i < count; ++i) expected[std::size_t(i)] += weights[std::size_t(r)] * value(r, i, number);
    auto values = values_of(comm.rank(), count, number);
    auto const before = test::mpi_calls().sends;

    sum.start(bytes(values), count, Weighted{weights});
    finish(sum);

    auto const sent = test::mpi_calls().sends - before;
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), sizeof(double) * values.size()), 0) << count;
    EXPECT_EQ(sum.sent().messages, sent);
    EXPECT_EQ(sum.traffic(count).messages, sent);
    EXPECT_EQ(sum.traffic(count).bytes, sum.sent().bytes);
    if (count == 4096) {
      EXPECT_LE(sent, 4 * root);
    }
    if (count > most_relayed) {
      EXPECT_EQ(sent, 2 * (num_ranks - 1)) << "long parts are sent once";
    }
  }
}

TEST(OrderedSum, copies_nothing_that_lies_in_the_memory_of_the_node) {
  Comm const comm = Comm::world();
  constexpr Index count = 999;
  OrderedSum sum(comm, sizeof(double));
  OrderedSum::share_on_node(comm, {{&sum, count}});
  ASSERT_EQ(sum.shared_memory() != nullptr, comm.num_ranks() > 1 && uses_node());
  std::vector<double> const ones(std::size_t(comm.num_ranks()), 1.0);
  for (int number = 0; sum.shared_memory() && number < 50; ++number) {
    auto* const values = reinterpret_cast<double*>(sum.shared_memory());
    for (Index i = 0; i < count; ++i) values[i] = 1000.0 * number + comm.rank();

    sum.start(sum.shared_memory(), count, Weighted{ones});
    finish(sum);

    int const n = comm.num_ranks();
    Index num_wrong = 0;
    for (Index i = 0; i < count; ++i) num_wrong += values[i] != 1000.0 * number * n + n * (n - 1) / 2 ? 1 : 0;
    EXPECT_EQ(num_wrong, 0);
  }
}

TEST(OrderedSum, of_several_objects_proceed_in_any_order) {
  Comm const comm = Comm::world();
  auto const weights = weights_of(comm.num_ranks());
  std::vector<OrderedSum> sums;
  std::vector<std::vector<double>> values;
  for (int s = 0; s < 4; ++s) {
    sums.emplace_back(comm, sizeof(double));
    values.push_back(values_of(comm.rank(), 100 + s, s));
  }

  for (int s = 0; s < 4; ++s) sums[std::size_t(s)].start(bytes(values[std::size_t(s)]), 100 + s, Weighted{weights});
  // Odd ranks look at the last one first.
  for (bool ended = false; !ended;) {
    ended = true;
    for (int i = 0; i < 4; ++i)
      if (!sums[std::size_t(comm.rank() % 2 == 0 ? i : 3 - i)].advance()) ended = false;
    std::this_thread::yield();
  }

  for (int s = 0; comm.num_ranks() > 1 && s < 4; ++s) {
    double expected = 0;
    for (int r = 0; r < comm.num_ranks(); ++r) expected += weights[std::size_t(r)] * value(r, 99, s);
    EXPECT_EQ(values[std::size_t(s)][99], expected);
  }
}

TEST(OrderedSum, reports_the_rank_that_it_waits_for) {
  Comm const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank waits for nobody";
  int const late = comm.num_ranks() - 1;
  for (bool const shared : {false, true}) {
    OrderedSum sum(comm, sizeof(double));
    if (shared) OrderedSum::share_on_node(comm, {{&sum, 100}});
    auto values = values_of(comm.rank(), 100, 3);
    auto const weights = weights_of(comm.num_ranks());

    if (comm.rank() != late) {
      sum.start(bytes(values), 100, Weighted{weights});
      EXPECT_FALSE(sum.advance());
      auto const missing = sum.missing();
      EXPECT_EQ(std::count(missing.begin(), missing.end(), late), 1);
    }
    comm.barrier();
    if (comm.rank() == late) sum.start(bytes(values), 100, Weighted{weights});
    finish(sum);

    EXPECT_TRUE(sum.missing().empty());
    double expected = 0;
    for (int r = 0; r < comm.num_ranks(); ++r) expected += weights[std::size_t(r)] * value(r, 42, 3);
    EXPECT_EQ(values[42], expected);
  }
}

}  // namespace
