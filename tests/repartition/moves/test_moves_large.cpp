// SPDX-License-Identifier: BSD-3-Clause
// More elements and longer strides than 32 bits count.
#include <graticule/repartition/plan.hpp>

#include "moves_support.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace graticule;
using test::bits_of;

namespace {

/// Zeros that take memory only where they are written.
class Zeros {
 public:
  explicit Zeros(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  Zeros(Zeros const&) = delete;
  Zeros& operator=(Zeros const&) = delete;
  ~Zeros() { munmap(data_, bytes_); }
  [[nodiscard]] bool there() const { return data_ != MAP_FAILED; }
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

// From rank 0 to the last rank, or to itself. All batch elements of the source share memory.
TEST(MovesLarge, messages_of_more_than_2_31_elements_bring_each_to_its_place) {
  auto const comm = Comm::world();
  constexpr Index num_cells = (Index(1) << 20U) + 1;
  constexpr Index num_batch = 2049;
  static_assert(num_cells * num_batch > Index(1) << 31U);
  Layout const first(ProcessGrid::on_ranks({1}, {0}), Indices{num_cells});
  Layout const last(ProcessGrid::on_ranks({1}, {comm.num_ranks() - 1}), Indices{num_cells});
  RepartitionPlan const plan(comm, first, last);
  bool const sends = !plan.source_box().empty();
  bool const receives = !plan.target_box().empty();
  std::vector<std::uint8_t> row(std::size_t(num_cells) + std::size_t(num_batch));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = bits_of<std::uint8_t>({}, {Index(i)});
  Zeros const target(receives ? std::size_t(num_cells * num_batch) : 1);
  ASSERT_TRUE(target.there());
  // Batch element b begins at element b, so that each is another.
  auto const from = field_view(row.data(), {num_batch, sends ? num_cells : 0}, {1, 1}, {1});
  auto const to = field_view(target.data(), {num_batch, receives ? num_cells : 0}, {num_cells, 1}, {1});

  plan.apply(from, to);

  for (Index b = 0; receives && b < num_batch; ++b)
    ASSERT_EQ(std::memcmp(target.data() + b * num_cells, row.data() + b, std::size_t(num_cells)), 0) << "batch " << b;
  if (receives && !sends) {
    EXPECT_LE(plan.stats().buffer_bytes, Index(1) << 20U);
  }
}

TEST(MovesLarge, views_with_strides_of_more_than_2_31_elements_are_read_and_written_in_place) {
  auto const comm = Comm::world();
  constexpr Index stride = (Index(1) << 32U) + 12345;
  constexpr Index num_rows = 7;
  constexpr Index num_columns = 9;
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{num_rows, num_columns});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{num_rows, num_columns});
  RepartitionPlan const plan(comm, rows, columns);
  Zeros const source(std::size_t(stride * num_rows));
  Zeros const target(std::size_t(stride * num_columns));
  ASSERT_TRUE(source.there() && target.there());
  auto const& own = plan.source_box();
  auto const& got = plan.target_box();
  // The source's rows lie far apart, the last first; the target's columns lie far apart.
  auto* const last_row = source.data() + stride * std::max<Index>(0, own.extent(0) - 1);
  auto const from = field_view(last_row, own.extents(), {-stride, 1}, {0, 1});
  auto const to = field_view(target.data(), got.extents(), {1, stride}, {0, 1});
  test::for_each_cell(own, [&](auto const& cell) {
    last_row[(cell[0] - own.lo(0)) * -stride + cell[1]] = bits_of<std::uint8_t>({}, cell);
  });

  plan.apply(from, to);

  test::for_each_cell(got, [&](auto const& cell) {
    ASSERT_EQ(target.data()[cell[0] + (cell[1] - got.lo(1)) * stride], bits_of<std::uint8_t>({}, cell))
        << to_string(cell);
  });
  test::for_each_cell(own, [&](auto const& cell) { last_row[(cell[0] - own.lo(0)) * -stride + cell[1]] = 0; });

  plan.apply_inverse(from, to);

  test::for_each_cell(own, [&](auto const& cell) {
    ASSERT_EQ(last_row[(cell[0] - own.lo(0)) * -stride + cell[1]], bits_of<std::uint8_t>({}, cell)) << to_string(cell);
  });
}

// Grids of more cells than there is memory for: each rank holds few of them.
TEST(MovesLarge, selections_reach_cells_beyond_2_31) {
  auto const comm = Comm::world();
  constexpr Index num_cells = Index(1) << 40U;
  constexpr Index step = Index(1) << 30U;
  // Rank 0 owns next to all, with a stride of 0; the others one cell each at the end.
  std::vector<Index> sizes(std::size_t(comm.num_ranks()), 1);
  sizes[0] = num_cells - comm.num_ranks() + 1;
  Layout const from(ProcessGrid{comm.num_ranks()}, std::vector<Cuts>{Cuts(sizes)});
  Indices const count{num_cells / step};
  Layout const to(ProcessGrid{comm.num_ranks()}, count);
  RepartitionPlan const plan(comm, from, to, {.from = Selection{{num_cells - 1}, {-step}, count}});
  auto value = std::uint8_t(comm.rank() + 1);
  std::vector<std::uint8_t> moved(std::size_t(plan.target_box().num_cells()), 0);

  plan.apply(field_view(&value, plan.source_box().extents(), {0}, {0}),
             field_view(moved.data(), plan.target_box().extents(), 1));

  for (Index i = plan.target_box().lo(0); i < plan.target_box().hi(0); ++i)
    ASSERT_EQ(moved[std::size_t(i - plan.target_box().lo(0))], i == 0 ? comm.num_ranks() : 1) << i;
}

}  // namespace
