// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/check_mpi.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace graticule;
using graticule::test::rule_of;
using graticule::test::thrown_by;

namespace {

int world_rank() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = -1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

TEST(Comm, is_a_duplicate_with_the_same_ranks) {
  Comm const comm(MPI_COMM_WORLD);

  int relation = MPI_UNEQUAL;
  MPI_Comm_compare(comm.handle(), MPI_COMM_WORLD, &relation);
  EXPECT_EQ(relation, MPI_CONGRUENT);
  EXPECT_EQ(comm.rank(), world_rank());
  EXPECT_EQ(comm.num_ranks(), world_size());
}

TEST(Comm, of_known_ranks_makes_no_table_of_them) {
  Comm const first = Comm::world();
  auto const before = test::mpi_calls().translations;

  Comm const again = Comm::world();
  Comm const copy(again.handle());

  EXPECT_EQ(test::mpi_calls().translations, before);
  EXPECT_EQ(copy.num_node_ranks(), first.num_node_ranks());
  EXPECT_EQ(copy.node_rank(), first.node_rank());
  // In another order their places are looked up.
  Comm const reversed = copy.split(0, -copy.rank());
  EXPECT_EQ(test::mpi_calls().translations > before, copy.num_ranks() > 1);
  EXPECT_EQ(reversed.num_node_ranks(), first.num_node_ranks());
}

TEST(Comm, of_known_ranks_takes_one_reduction_and_a_duplicate) {
  Comm const first = Comm::world();
  auto const before = test::mpi_calls().collectives;

  Comm const again = Comm::world();

  EXPECT_EQ(test::mpi_calls().collectives - before, 1) << "the duplicate is not counted";
}

TEST(Comm, returns_errors_and_leaves_its_parent_alone) {
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);

  Comm const comm(MPI_COMM_WORLD);
  MPI_Errhandler after = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
  int const value = 0;
  auto const thrown =
      thrown_by([&] { check_mpi(MPI_Send(&value, 1, MPI_INT, comm.num_ranks() + 3, 0, comm.handle()), "MPI_Send"); });

  EXPECT_EQ(before, after);
  EXPECT_EQ(thrown.rule, "MpiError");
  EXPECT_NE(thrown.text.find("MPI_Send"), std::string::npos);
}

TEST(Comm, refuses_the_null_communicator) {
  EXPECT_EQ(rule_of([] { Comm{MPI_COMM_NULL}; }), "WrongState");
}

TEST(Comm, counts_the_ranks_of_its_node) {
  auto const comm = Comm::world();
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  // Several nodes of SLURM may be one machine; MPI takes what SLURM says.
  char const* const node = std::getenv("SLURM_NODEID");
  std::string const mine = std::string(name.data(), std::size_t(length)) + " " + (node != nullptr ? node : "");
  std::set<std::string> names;
  int here = 0;
  int before_me = 0;
  for (int r = 0; r < comm.num_ranks(); ++r) {
    auto const other = comm.broadcast(mine, r);
    EXPECT_EQ(comm.on_this_node(r), other == mine) << "rank " << r;
    names.insert(other);
    here += other == mine ? 1 : 0;
    before_me += other == mine && r < comm.rank() ? 1 : 0;
  }

  EXPECT_EQ(comm.num_node_ranks(), here);
  EXPECT_EQ(comm.node_rank(), before_me);
  EXPECT_EQ(comm.num_nodes(), int(names.size()));
}

// Ranks that chose differently would make collective calls that do not match.
TEST(Comm, all_ranks_and_parts_know_alike_whether_cores_are_shared) {
  auto const comm = Comm::world();
  auto const part = comm.split(comm.rank(), 0);

  for (Index other : comm.gather_to_all(comm.oversubscribed() ? 1 : 0)) EXPECT_EQ(other, comm.oversubscribed() ? 1 : 0);
  EXPECT_EQ(part.oversubscribed(), comm.oversubscribed());
  char const* const wait = std::getenv("GRATICULE_WAIT");
  if (wait != nullptr && std::string(wait) != "auto") {
    EXPECT_EQ(comm.oversubscribed(), std::string(wait) == "sleep");
    return;
  }
  // Ranks that are bound to cores of their own may have enough of them together.
  auto const cores = int(std::thread::hardware_concurrency());
  if (comm.num_nodes() == 1 && cores == sysconf(_SC_NPROCESSORS_ONLN)) {
    EXPECT_EQ(comm.oversubscribed(), comm.num_ranks() > cores);
  }
}

TEST(Comm, waits_for_a_request) {
  auto const comm = Comm::world();
  int const next = (comm.rank() + 1) % comm.num_ranks();
  int const sent = comm.rank();
  int received = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&received, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm.handle(), &request);
  MPI_Send(&sent, 1, MPI_INT, next, 3, comm.handle());

  comm.wait(request);

  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_EQ(received, (comm.rank() + comm.num_ranks() - 1) % comm.num_ranks());
}

TEST(Comm, reduces_and_broadcasts_other_types) {
  auto const comm = Comm::world();
  std::array<float, 3> values{float(comm.rank()), 1.0F, -1.0F};
  std::array<char, 5> text{};
  if (comm.rank() == comm.num_ranks() - 1) text = {'w', 'e', 's', 't', 0};

  comm.reduce(values.data(), 3, MPI_FLOAT, MPI_SUM);
  comm.broadcast(text.data(), 5, comm.num_ranks() - 1);
  comm.reduce(values.data(), 0, MPI_FLOAT, MPI_SUM);

  auto const n = float(comm.num_ranks());
  EXPECT_EQ(values, (std::array<float, 3>{n * (n - 1) / 2, n, -n}));
  EXPECT_STREQ(text.data(), "west");
}

TEST(Comm, splits_by_color_and_orders_by_key) {
  auto const comm = Comm::world();
  int const color = comm.rank() % 2;

  auto const part = comm.split(color, -comm.rank());

  int const num_even = (comm.num_ranks() + 1) / 2;
  int const size = color == 0 ? num_even : comm.num_ranks() - num_even;
  ASSERT_EQ(part.num_ranks(), size);
  EXPECT_EQ(part.rank(), size - 1 - comm.rank() / 2);
  auto const members = part.gather_to_all(comm.rank());
  for (int r = 0; r < size; ++r) EXPECT_EQ(members[std::size_t(r)], 2 * (size - 1 - r) + color);
}

TEST(Comm, a_part_outlives_the_communicator_it_was_split_from) {
  auto const part = [] { return Comm::world().split(0, 0); }();
  std::array<Index, 1> ones{1};

  part.sum(ones);

  EXPECT_EQ(ones[0], world_size());
}

TEST(Comm, a_rank_of_no_color_gets_an_error_and_the_others_their_part) {
  auto const comm = Comm::world();
  bool const out = comm.rank() == comm.num_ranks() - 1;

  auto const rule = rule_of([&] {
    auto const part = comm.split(out ? MPI_UNDEFINED : 5, 0);
    EXPECT_EQ(part.num_ranks(), comm.num_ranks() - 1);
  });

  EXPECT_EQ(rule, out ? "WrongState" : "nothing was thrown");
}

TEST(Comm, frees_what_it_duplicates) {
  if (world_size() > 2) GTEST_SKIP() << "takes minutes when ranks share a core, and shows nothing more";
  // MPICH 4 has 2048 context ids in all; three are taken here per turn.
  for (int turn = 0; turn < 800; ++turn) {
    auto const comm = Comm::world();
    auto const part = comm.split(0, 0);
    ASSERT_EQ(part.num_ranks(), comm.num_ranks());
  }
}

// MPI's own handler would end the program.
TEST(Comm, reports_that_none_is_left_and_what_to_do) {
  if (world_size() > 2) GTEST_SKIP() << "takes minutes when ranks share a core, and shows nothing more";
  constexpr std::size_t many = 5000;
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  std::vector<Comm> comms;
  std::string text;
  std::string text_of_part;
  try {
    while (comms.size() < many) comms.push_back(Comm::world());
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "MpiError");
    text = error.text();
    try {
      while (comms.size() < many) comms.push_back(comms.front().split(0, 0));
    } catch (Error const& other) {
      text_of_part = other.text();
    }
  }

  for (auto const& found : {text, text_of_part})
    EXPECT_TRUE(comms.size() == many || found.find("make one and pass copies of it on") != std::string::npos) << found;
  EXPECT_GT(comms.size(), 500U);
  MPI_Errhandler after = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
  EXPECT_EQ(before, after);
  comms.clear();
  EXPECT_EQ(Comm::world().num_ranks(), world_size());
}

TEST(Comm, tags_are_new_and_equal_on_all_ranks) {
  auto const comm = Comm::world();
  Comm const copy = comm;
  std::set<int> tags;
  for (int i = 0; i < 10; ++i) {
    int const tag = (i % 2 == 0 ? comm : copy).next_tag();

    EXPECT_GE(tag, 0);
    EXPECT_TRUE(tags.insert(tag).second) << "tag " << tag << " twice";
    for (Index other : comm.gather_to_all(tag)) EXPECT_EQ(other, tag);
  }
}

TEST(Comm, reduces_element_by_element) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  Index const r = comm.rank();
  Index const big = (Index(1) << 40) + 1;
  std::array<Index, 3> sums{r, big, -r};
  std::array<Index, 3> maxima{r, -r, r == n / 2 ? big : 0};
  std::array<double, 2> real_maxima{-double(r), 0.5 * double(r)};

  comm.sum(sums);
  comm.max(maxima);
  comm.max(real_maxima);

  EXPECT_EQ(sums, (std::array<Index, 3>{n * (n - 1) / 2, n * big, -n * (n - 1) / 2}));
  EXPECT_EQ(maxima, (std::array<Index, 3>{n - 1, 0, big}));
  EXPECT_EQ(real_maxima, (std::array<double, 2>{0.0, 0.5 * double(n - 1)}));
}

TEST(Comm, real_sums_have_the_same_bits_on_all_ranks) {
  auto const comm = Comm::world();
  for (int trial = 0; trial < 20; ++trial) {
    std::array<double, 2> values{std::sin(1.0 + comm.rank() * 7 + trial), std::pow(10.0, comm.rank() * 3)};
    double const expected = [&] {
      double sum = 0;
      for (int r = 0; r < comm.num_ranks(); ++r) sum += std::sin(1.0 + r * 7 + trial);
      return sum;
    }();

    comm.sum(values);

    EXPECT_NEAR(values[0], expected, 1e-13);
    for (double value : values)
      for (Index other : comm.gather_to_all(std::bit_cast<Index>(value))) EXPECT_EQ(other, std::bit_cast<Index>(value));
  }
}

TEST(Comm, reduces_nothing) {
  auto const comm = Comm::world();

  EXPECT_NO_THROW(comm.sum(std::span<Index>{}));
  EXPECT_NO_THROW(comm.max(std::span<double>{}));
}

TEST(Comm, gathers_in_order_of_ranks) {
  auto const comm = Comm::world();
  auto const values = comm.gather_to_all((Index(1) << 40) * comm.rank());

  ASSERT_EQ(int(values.size()), comm.num_ranks());
  for (Index r = 0; r < comm.num_ranks(); ++r) EXPECT_EQ(values[std::size_t(r)], (Index(1) << 40) * r);
}

TEST(Comm, broadcasts_any_text_from_any_rank) {
  auto const comm = Comm::world();
  for (int root = 0; root < comm.num_ranks(); ++root)
    for (std::string const& text : {std::string(), std::string("latitude"), std::string("a\0b", 3)}) {
      auto const mine = comm.rank() == root ? text : "of rank " + std::to_string(comm.rank());

      EXPECT_EQ(comm.broadcast(mine, root), text);
    }
}

TEST(RunAgreed, returns_when_no_rank_fails) {
  auto const comm = Comm::world();
  int num_runs = 0;

  EXPECT_NO_THROW(run_agreed(comm, [&] { ++num_runs; }));

  EXPECT_EQ(num_runs, 1);
}

// Every set of failing ranks: all ranks throw what the lowest of them says, and the communicator stays usable.
TEST(RunAgreed, throws_on_all_ranks_what_the_lowest_failing_rank_says) {
  auto const comm = Comm::world();
  for (int failing = 1; failing < 1 << comm.num_ranks(); ++failing) {
    int const lowest = std::countr_zero(unsigned(failing));

    auto const thrown = thrown_by([&] {
      run_agreed(comm, [&] {
        if ((failing >> comm.rank() & 1) != 0)
          throw Error(Fault::input, "Rule" + std::to_string(comm.rank()), "text of " + std::to_string(comm.rank()));
      });
    });

    EXPECT_EQ(thrown.rule, "Rule" + std::to_string(lowest));
    EXPECT_EQ(thrown.fault, Fault::input);
    auto const text = "text of " + std::to_string(lowest);
    EXPECT_EQ(thrown.text, comm.rank() == lowest ? text : "rank " + std::to_string(lowest) + ": " + text);
    EXPECT_EQ(comm.gather_to_all(1).size(), std::size_t(comm.num_ranks()));
  }
}

TEST(RunAgreed, keeps_the_type_of_an_exception_on_its_rank) {
  auto const comm = Comm::world();
  int const failing = comm.num_ranks() - 1;
  std::string caught = "nothing";
  try {
    run_agreed(comm, [&] {
      if (comm.rank() == failing) throw std::out_of_range("cell 9");
    });
  } catch (std::out_of_range const& error) {
    caught = std::string("out_of_range ") + error.what();
  } catch (Error const& error) {
    caught = error.rule() + " " + error.text();
  }

  EXPECT_EQ(caught,
            comm.rank() == failing ? "out_of_range cell 9" : "Error rank " + std::to_string(failing) + ": cell 9");
}

TEST(RunAgreed, survives_exceptions_of_unknown_type) {
  auto const comm = Comm::world();
  bool thrown = false;
  try {
    run_agreed(comm, [&] {
      if (comm.rank() == 0) throw 42;
    });
  } catch (int) {
    thrown = comm.rank() == 0;
  } catch (Error const&) {
    thrown = comm.rank() != 0;
  }

  EXPECT_TRUE(thrown);
}

TEST(RequireSame, passes_when_all_ranks_agree) {
  auto const comm = Comm::world();
  for (std::uint64_t value : {std::uint64_t(0), std::uint64_t(1), ~std::uint64_t(0), std::uint64_t(1) << 63U})
    EXPECT_EQ(rule_of([&] { require_same(comm, "LayoutMismatch", value, "a"); }), "nothing was thrown");
}

TEST(RequireSame, names_the_ranks_and_values_that_differ) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  for (int odd = 0; odd < comm.num_ranks(); ++odd)
    for (int bit : {0, 1, 31, 32, 33, 63}) {
      bool const differs = comm.rank() == odd;
      std::uint64_t const value = std::uint64_t(0x5555'aaaa'5555'aaaa) ^ (differs ? std::uint64_t(1) << bit : 0);

      auto const thrown = thrown_by([&] { require_same(comm, "LayoutMismatch", value, differs ? "3x1" : "1x3"); });

      ASSERT_EQ(thrown.rule, "LayoutMismatch") << "bit " << bit << " of rank " << odd;
      int const other = odd == 0 ? 1 : odd;
      ASSERT_EQ(thrown.text, odd == 0 ? "rank 0 has 3x1, rank 1 has 1x3"
                                      : "rank 0 has 1x3, rank " + std::to_string(other) + " has 3x1");
    }
}

TEST(RequireSame, shows_the_parts_of_lists_that_differ) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  bool const first = comm.rank() == 0;
  auto const text_of = [&](std::string const& described) {
    return thrown_by([&] { require_same(comm, "ArgumentDisagreement", first ? 0 : 1, described); }).text;
  };

  EXPECT_EQ(text_of(first ? "plan; a; b; c; d" : "plan; a; x; c; y"),
            "rank 0 has plan; ...; b; ...; d, rank 1 has plan; ...; x; ...; y");
  EXPECT_EQ(text_of(first ? "plan; a; b" : "plan; a"), "rank 0 has plan; a; b, rank 1 has plan; a");
  EXPECT_EQ(text_of("cells of t"), "rank 0 and rank 1 have different cells of t");
}
}  // namespace
