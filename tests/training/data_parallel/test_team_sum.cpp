// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/node_memory.hpp>

#include "data_parallel/team_sum.hpp"
#include "environment.hpp"
#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "no_files.hpp"
#include "numbers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace graticule {
namespace test_team_sum {

using test::rule_of;
using test::same_bits;
using training::SumOrder;
using training::Wire;
using training::detail::TeamSum;

bool told_to_send_messages() {
  auto const* const transport = std::getenv("GRATICULE_TRANSPORT");
  return transport != nullptr && std::string(transport) == "p2p";
}

/// What a rank gives to sum `number`; every rank knows it.
torch::Tensor values_of(int rank, Index numel, torch::ScalarType type, int number) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t(1000 * number + rank));
  return torch::randn({numel}, generator, torch::kDouble).mul_(100).to(type);
}

/// Sum of all ranks' values, rank 0 first, whose first numbers are divided; as the comments of `Wire` and `SumOrder`
/// say.
torch::Tensor expected_sum(Comm const& comm, Index numel, torch::ScalarType type, torch::ScalarType wire, int number,
                           Index num_data, double divisor) {
  double before = 1;
  if (wire == torch::kHalf && type != torch::kHalf && comm.num_ranks() == 4) before = 2;
  auto const wide = wire == torch::kHalf || wire == torch::kBFloat16 ? torch::kFloat : wire;
  torch::Tensor sum;
  for (int rank = 0; rank < comm.num_ranks(); ++rank) {
    auto given = values_of(rank, numel, type, number);
    if (before != 1) given.narrow(0, 0, num_data).div_(before);
    auto const rounded = given.to(wire).to(wide);
    sum = rank == 0 ? rounded.clone() : sum + rounded;
  }
  sum.narrow(0, 0, num_data).mul_(before).div_(divisor);
  return comm.num_ranks() > 1 ? sum.to(wire).to(type) : values_of(0, numel, type, number);
}

void finish(TeamSum& sum) {
  while (!sum.advance()) std::this_thread::yield();
}

struct Kind {
  torch::ScalarType type;
  Wire wire;
  torch::ScalarType travels;
};

constexpr Kind kinds[] = {{torch::kFloat, Wire::own, torch::kFloat},       {torch::kDouble, Wire::own, torch::kDouble},
                          {torch::kBFloat16, Wire::own, torch::kBFloat16}, {torch::kHalf, Wire::own, torch::kHalf},
                          {torch::kFloat, Wire::bf16, torch::kBFloat16},   {torch::kFloat, Wire::f16, torch::kHalf},
                          {torch::kDouble, Wire::f16, torch::kHalf}};

TEST(TeamSum, gives_the_same_bits_through_memory_of_the_node_and_by_messages) {
  auto const comm = Comm::world();
  // None, fewer than ranks, odd ones, and more than are added at a time, by one number and by far.
  constexpr Index largest = 140001;
  for (auto const& kind : kinds) {
    TeamSum by_messages(comm, kind.type, kind.wire, SumOrder::by_rank);
    TeamSum on_node(comm, kind.type, kind.wire, SumOrder::by_rank);
    TeamSum::share_on_node(comm, {{&on_node, largest}});
    int number = 0;
    for (Index const numel : {Index(0), Index(1), Index(2), Index(7), Index(1003), Index(65538), largest})
      for (double const divisor : {1.0, 3.0}) {
        ++number;
        auto const num_data = numel - numel / 3;
        auto const expected = expected_sum(comm, numel, kind.type, kind.travels, number, num_data, divisor);
        for (auto* const sum : {&by_messages, &on_node}) {
          if (comm.num_ranks() == 1 && divisor != 1) continue;
          auto const flat = values_of(comm.rank(), numel, kind.type, number);
          auto const before = test::mpi_calls();
          sum->start(flat, num_data, divisor);
          finish(*sum);

          EXPECT_TRUE(same_bits(flat, expected)) << kind.type << " as " << kind.travels << ", " << numel;
          bool const sends = sum == &by_messages || told_to_send_messages();
          EXPECT_EQ(test::mpi_calls().sends - before.sends, sends ? sum->traffic().messages : 0);
        }
        EXPECT_EQ(by_messages.traffic().messages, on_node.traffic().messages);
        EXPECT_EQ(by_messages.traffic().bytes, on_node.traffic().bytes);
      }
  }
}

TEST(TeamSum, adds_values_that_lie_in_the_memory_that_is_shared) {
  auto const comm = Comm::world();
  constexpr Index numel = 70001;
  for (auto const& kind : kinds) {
    TeamSum sum(comm, kind.type, kind.wire, SumOrder::by_rank);
    TeamSum::share_on_node(comm, {{&sum, numel}});
    auto const flat = sum.shared_memory();
    bool const has_place = comm.num_ranks() > 1 && !told_to_send_messages() && kind.travels == kind.type;
    ASSERT_EQ(flat.defined(), has_place) << kind.type << " as " << kind.travels;
    // Again in the memory of the sum before.
    for (int number = 0; has_place && number < 3; ++number) {
      auto const expected = expected_sum(comm, numel, kind.type, kind.travels, number, numel - 5, 3);
      flat.copy_(values_of(comm.rank(), numel, kind.type, number));
      sum.start(flat, numel - 5, 3);
      finish(sum);

      EXPECT_TRUE(same_bits(flat, expected)) << kind.type << ", sum " << number;
    }
  }
}

TEST(TeamSum, takes_messages_for_more_than_there_is_room_for) {
  auto const comm = Comm::world();
  TeamSum sum(comm, torch::kFloat, Wire::own, SumOrder::by_rank);
  TeamSum::share_on_node(comm, {{&sum, 100}});
  for (Index const numel : {101, 100}) {
    auto const flat = torch::full({numel}, comm.rank() + 1.0, torch::kFloat);
    auto const before = test::mpi_calls().sends;

    sum.start(flat, numel, 1);
    finish(sum);

    EXPECT_EQ(flat.eq(comm.num_ranks() * (comm.num_ranks() + 1) / 2).sum().item<Index>(), numel);
    bool const sends = comm.num_ranks() > 1 && (numel > 100 || told_to_send_messages());
    EXPECT_EQ(test::mpi_calls().sends > before, sends);
  }
}

// Places are written again by ranks that are ahead while others have still to read.
TEST(TeamSum, keeps_many_sums_apart_of_ranks_that_wait_for_nobody) {
  auto const comm = Comm::world();
  constexpr std::size_t num_sums = 3;
  constexpr Index numel = 999;
  std::vector<TeamSum> sums;
  for (std::size_t i = 0; i < num_sums; ++i) sums.emplace_back(comm, torch::kDouble, Wire::own, SumOrder::by_rank);
  std::vector<std::pair<TeamSum*, Index>> shared;
  for (auto& sum : sums) shared.emplace_back(&sum, numel);
  TeamSum::share_on_node(comm, shared);
  std::uint64_t state = 7 + std::uint64_t(comm.rank());
  Index num_wrong = 0;
  for (int number = 0; number < 200; ++number) {
    std::vector<torch::Tensor> flats;
    for (std::size_t i = 0; i < num_sums; ++i) {
      flats.push_back(torch::full({numel}, 1000.0 * number + 10.0 * double(i) + comm.rank(), torch::kDouble));
      sums[i].start(flats[i], numel, 1);
      state = state * 6364136223846793005U + 1442695040888963407U;
      if (state >> 61U == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      sums[0].advance();
    }
    for (std::size_t i = num_sums; i-- > 0;) finish(sums[i]);
    int const n = comm.num_ranks();
    for (std::size_t i = 0; i < num_sums; ++i)
      num_wrong += flats[i].ne(n * (1000.0 * number + 10.0 * double(i)) + n * (n - 1) / 2).sum().item<Index>();
  }
  EXPECT_EQ(num_wrong, 0);
}

TEST(TeamSum, ends_where_another_rank_has_freed_its_memory) {
  auto const comm = Comm::world();
  constexpr Index numel = 3000;
  for (int number = 0; number < 5; ++number) {
    std::optional<TeamSum> sum(std::in_place, comm, torch::kDouble, Wire::own, SumOrder::by_rank);
    TeamSum::share_on_node(comm, {{&*sum, numel}});
    auto const flat = torch::full({numel}, number + comm.rank(), torch::kDouble);
    sum->start(flat, numel, 1);
    // All but the first rank are late twice: before they add, and before they take what has been added.
    if (comm.rank() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!sum->advance() && comm.rank() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    finish(*sum);
    sum.reset();
    NodeMemory const after(sizeof(double) * std::size_t(numel));
    std::fill_n(after.data<unsigned char>(), sizeof(double) * std::size_t(numel), 0xff);

    int const n = comm.num_ranks();
    EXPECT_EQ(flat.eq(n * number + n * (n - 1) / 2).sum().item<Index>(), numel);
  }
}

TEST(TeamSum, names_a_rank_that_adds_another_number_of_values) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank disagrees with nobody";
  if (told_to_send_messages()) GTEST_SKIP() << "a transport by messages: MPI itself compares their lengths";
  TeamSum sum(comm, torch::kFloat, Wire::own, SumOrder::by_rank);
  TeamSum::share_on_node(comm, {{&sum, 100}});
  auto const flat = torch::zeros({comm.rank() == 0 ? 99 : 100});
  sum.start(flat, flat.numel(), 1);

  EXPECT_EQ(rule_of([&] { finish(sum); }), "StructureDisagreement");
  comm.barrier();
}

TEST(TeamSum, sends_messages_where_a_rank_has_no_memory_to_share) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "sanitizers open files to look at memory";
#endif
  auto const comm = Comm::world();
  TeamSum sum(comm, torch::kFloat, Wire::own, SumOrder::by_rank);
  // More than is left of what the process has shared before.
  constexpr Index numel = Index(20) << 20U;
  std::optional<test::NoFiles> no_files;
  if (comm.rank() == comm.num_ranks() - 1) no_files.emplace();
  TeamSum::share_on_node(comm, {{&sum, numel}});
  no_files.reset();
  auto const flat = torch::full({100}, comm.rank() + 1.0, torch::kFloat);
  auto const before = test::mpi_calls().sends;

  sum.start(flat, 100, 1);
  finish(sum);

  EXPECT_EQ(flat.eq(comm.num_ranks() * (comm.num_ranks() + 1) / 2).sum().item<Index>(), 100);
  EXPECT_EQ(test::mpi_calls().sends > before, comm.num_ranks() > 1);
}

TEST(TeamSum, refuses_a_transport_that_one_rank_does_not_know_on_all_ranks) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank sends nothing";
  TeamSum sum(comm, torch::kFloat, Wire::own, SumOrder::by_rank);
  std::optional<test::WithVariable> transport;
  if (comm.rank() == 0) transport.emplace("GRATICULE_TRANSPORT", "pigeon");

  EXPECT_EQ(rule_of([&] { TeamSum::share_on_node(comm, {{&sum, 10}}); }), "BadOption");
}

}  // namespace test_team_sum
}  // namespace graticule
