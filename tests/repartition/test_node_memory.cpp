// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

using namespace graticule;

namespace {

TEST(NodeMemory, by_default_is_none) {
  NodeMemory const none;

  EXPECT_EQ(none.data(), nullptr);
  EXPECT_FALSE(none.shared());
}

TEST(NodeMemory, is_aligned_to_a_page_and_belongs_to_one_object_alone) {
  auto const page = std::uintptr_t(::sysconf(_SC_PAGESIZE));
  std::vector<NodeMemory> blocks;
  for (std::size_t const bytes : {std::size_t(1), std::size_t(page - 1), std::size_t(page), std::size_t(3 * page + 5)})
    blocks.emplace_back(bytes);
  std::vector<std::size_t> const sizes{1, page - 1, page, 3 * page + 5};

  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks[i].data()) % page, 0U);
    std::memset(blocks[i].data(), int(i) + 1, sizes[i]);
  }

  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t b = 0; b < sizes[i]; ++b) ASSERT_EQ(blocks[i].data()[b], std::byte(i + 1));
}

TEST(NodeMemory, lives_as_long_as_its_last_copy) {
  NodeMemory copy;
  double* data = nullptr;
  {
    NodeMemory const memory(8 * sizeof(double));
    data = memory.data<double>();
    std::iota(data, data + 8, 1.0);
    copy = memory;
    EXPECT_EQ(copy.shared(), memory.shared());
  }
  NodeMemory const other(8 * sizeof(double));
  std::fill_n(other.data<double>(), 8, -1.0);

  ASSERT_EQ(copy.data<double>(), data);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(data[i], i + 1);
}

TEST(NodeMemory, is_made_and_freed_by_one_rank_alone) {
  auto const comm = Comm::world();
  if (comm.rank() == 0)
    for (int turn = 0; turn < 20; ++turn) {
      NodeMemory const memory(std::size_t(turn) * 10000 + 1);
      ASSERT_NE(memory.data(), nullptr);
      *memory.data<char>() = 'x';
    }
  comm.barrier();
}

TEST(NodeMemory, is_read_in_place_by_a_plan_with_the_result_of_ordinary_memory) {
  auto const comm = Comm::world();
  Index const n = 2 * comm.num_ranks();
  RepartitionPlan const plan(comm, Layout(ProcessGrid{comm.num_ranks(), 1}, Indices{n, n}),
                             Layout(ProcessGrid{1, comm.num_ranks()}, Indices{n, n}));
  auto const from_box = plan.source_box();
  auto const to_box = plan.target_box();
  NodeMemory const memory(std::size_t(from_box.num_cells()) * sizeof(double));
  Index cell = from_box.lo(0) * n;
  for (Index i = 0; i < from_box.num_cells(); ++i) memory.data<double>()[i] = double(cell++);
  std::vector<double> to(std::size_t(to_box.num_cells()), -1);

  plan.apply(field_view(memory.data<double>(), from_box.extents(), 2), field_view(to.data(), to_box.extents(), 2));

  for (Index i = 0; i < to_box.extent(0); ++i)
    for (Index j = 0; j < to_box.extent(1); ++j)
      EXPECT_EQ(to[std::size_t(i * to_box.extent(1) + j)], double(i * n + to_box.lo(1) + j));
}

}  // namespace
