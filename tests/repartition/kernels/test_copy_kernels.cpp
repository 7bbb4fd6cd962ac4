// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/copy_kernels.hpp>
#include <graticule/repartition/detail/strided.hpp>
#include <graticule/repartition/plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace graticule {

namespace {

/// Calls `visit(kernel)` for those that this processor has; each of the others writes a line.
template <class Visit>
void for_each_kernel(Visit const& visit) {
  for (auto const& kernel : copy_kernels()) {
    if (has_feature(kernel))
      visit(kernel);
    else
      std::printf("skipped: copies by %s, the processor lacks %s\n", std::string(kernel.name).c_str(),
                  std::string(kernel.feature).c_str());
  }
}

/// Bytes that differ from their neighbors, and from those a page or a line further.
std::vector<std::byte> numbered(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> result(bytes);
  std::uint32_t state = 2654435769U * (seed + 1);
  for (auto& byte : result) {
    state = state * 1664525U + 1013904223U;
    byte = std::byte(state >> 24U);
  }
  return result;
}

/// Sets a variable of the environment for a scope.
class Variable {
 public:
  Variable(char const* name, char const* value) : name_(name) {
    if (char const* const old = std::getenv(name)) old_ = old;
    ::setenv(name, value, 1);
  }
  Variable(Variable const&) = delete;
  Variable& operator=(Variable const&) = delete;
  ~Variable() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }

 private:
  char const* name_;
  std::string old_;
};

std::string text_of_error(char const* value) {
  Variable const set("GRATICULE_COPY", value);
  try {
    check_copy_environment();
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "BadOption");
    return error.text();
  }
  return "";
}

/// A task with a result that it writes.
struct Work {
  std::string name;
  std::size_t bytes = 0;  ///< of the memory that it reads, and of that which it writes
  detail::StridedTask task;
};

/// Copies `extents` elements from strides to strides. Both sides begin at the second element of their memory.
Work work(std::string name, DType dtype, Indices const& extents, Indices const& to, Indices const& from) {
  Work result{std::move(name), 0,
              detail::make_strided(detail::StridedOp::copy, dtype, extents, nullptr, to, nullptr, from)};
  Index last_to = 1;
  Index last_from = 1;
  for (int a = 0; a < extents.size(); ++a) {
    last_to += (extents[a] - 1) * to[a];
    last_from += (extents[a] - 1) * from[a];
  }
  result.bytes = std::size_t((std::max(last_to, last_from) + 1) * size_of(dtype));
  result.task.streams = true;
  return result;
}

std::vector<std::byte> run(Work const& work, std::vector<std::byte> const& source) {
  std::vector<std::byte> target(work.bytes, std::byte{0x55});
  auto task = work.task;
  task.to = target.data() + size_of(task.dtype);
  task.from = source.data() + size_of(task.dtype);
  detail::run_strided_host(std::span(&task, 1));
  return target;
}

}  // namespace

TEST(CopyKernels, copy_runs_of_any_length_between_any_places) {
  std::vector<std::size_t> lengths;
  for (std::size_t bytes = 0; bytes <= 200; ++bytes) lengths.push_back(bytes);
  for (std::size_t const about : {256, 511, 1024, 4096, 16384, 16448, 32768, 70000})
    for (std::size_t const more : {0, 1, 63}) lengths.push_back(about + more);
  constexpr std::size_t around = 128;
  std::size_t const most = lengths.back() + 3 * around;
  auto const source = numbered(most, 1);
  auto const other = numbered(most, 2);

  for_each_kernel([&](CopyKernel const& kernel) {
    for (std::size_t const bytes : lengths)
      for (std::size_t const to : {0, 1, 8, 31, 48, 63})
        for (std::size_t const from : {0, 1, 16, 40, 63}) {
          auto target = std::vector(other.begin(), other.begin() + std::ptrdiff_t(bytes + 3 * around));
          auto expected = target;
          std::copy_n(source.begin() + std::ptrdiff_t(from), bytes, expected.begin() + std::ptrdiff_t(around + to));

          copy_run(kernel, target.data() + around + to, source.data() + from, bytes);
          store_fence();

          ASSERT_TRUE(target == expected) << kernel.name << ", " << bytes << " bytes from " << from << " to " << to;
        }
  });
}

TEST(CopyKernels, tasks_do_not_depend_on_the_choice) {
  auto const& before = copy_kernel();
  std::vector<Work> const works{
      work("one run", DType::f64, {300001}, {1}, {1}),
      work("rows of 4567 bytes", DType::u8, {499, 4567}, {4600, 1}, {4567, 1}),
      work("rows of 20 KB", DType::f32, {101, 5003}, {5003, 1}, {10010, 1}),
      work("rows of 132 bytes", DType::i16, {7001, 66}, {66, 1}, {67, 1}),
      work("rows of 520 bytes in another order", DType::f64, {67, 71, 65}, {71 * 65, 65, 1}, {65, 67 * 65, 1}),
      work("rows of 500 bytes in another order", DType::f32, {67, 71, 125}, {71 * 125, 125, 1}, {125, 67 * 125, 1}),
      work("rows of 2 KB of four axes", DType::f32, {5, 7, 3, 513}, {21 * 515, 3 * 515, 515, 1},
           {515, 2575, 35 * 515, 1}),
      work("permuted f64", DType::f64, {7, 331, 111}, {331 * 111, 111, 1}, {1, 7, 7 * 331}),
      work("permuted f32", DType::f32, {613, 1117}, {1119, 1}, {1, 613}),
      work("permuted i16", DType::i16, {1021, 1001}, {1001, 1}, {1, 1025}),
      work("permuted u8", DType::u8, {1201, 2007}, {2007, 1}, {1, 1201}),
  };

  for (auto const& work : works) {
    auto const source = numbered(work.bytes, 3);
    use_copy_kernel(copy_kernels().back());
    auto const expected = run(work, source);
    for_each_kernel([&](CopyKernel const& kernel) {
      use_copy_kernel(kernel);
      EXPECT_TRUE(run(work, source) == expected) << work.name << " by " << kernel.name;
    });
  }
  use_copy_kernel(before);
}

/// Boxes whose axes are permuted and whose rows begin in the same or in other places of a cache line, with gaps between
/// rows and planes or without.
TEST(CopyKernels, random_permuted_boxes_arrive_whole_and_nothing_else_changes) {
  auto const& before = copy_kernel();
  std::mt19937 random(7);
  auto const number = [&](Index least, Index most) {
    return std::uniform_int_distribution<Index>(least, most)(random);
  };
  constexpr int num_boxes = 120;
  for (int box = 0; box < num_boxes; ++box) {
    auto const dtype = std::array{DType::f64, DType::f32, DType::i64, DType::i16}[std::size_t(number(0, 3))];
    int const ndim = int(number(2, 4));
    Index const line = 64 / size_of(dtype);
    std::vector<int> order(std::size_t(ndim), 0);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    Indices extents = Indices::filled(ndim, 0);
    for (int a = 0; a < ndim; ++a) extents[a] = number(1, ndim == 2 ? 70 : 12);
    extents[ndim - 1] = number(0, 1) == 0 ? number(1, 6) * line : number(16, 150);
    // Slowest axis of the source first; each axis of the target may be padded, to whole lines or not.
    auto const strides = [&](std::vector<int> const& axes, Index most_padding) {
      Indices result = extents;
      Index next = 1;
      for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
        result[*axis] = next;
        next *= extents[*axis];
        if (number(0, 2) == 0) next += number(0, most_padding);
        if (number(0, 1) == 0) next = (next + line - 1) / line * line;
      }
      return result;
    };
    auto outer = std::vector<int>(std::size_t(ndim), 0);
    std::iota(outer.begin(), outer.end(), 0);
    std::shuffle(outer.begin(), outer.end() - 1, random);
    auto const copy = work("box " + std::to_string(box), dtype, extents, strides(outer, 3), strides(order, 9));
    auto const source = numbered(copy.bytes, unsigned(box));
    std::vector<std::byte> expected(copy.bytes, std::byte{0x55});
    auto const bytes = std::size_t(size_of(dtype));
    std::vector<Index> cell(std::size_t(copy.task.ndim), 0);
    for (Index left = copy.task.num_elements(); left > 0; --left) {
      Index to = 1;
      Index from = 1;
      for (std::size_t a = 0; a < cell.size(); ++a) {
        to += cell[a] * copy.task.to_stride[a];
        from += cell[a] * copy.task.from_stride[a];
      }
      std::memcpy(expected.data() + std::size_t(to) * bytes, source.data() + std::size_t(from) * bytes, bytes);
      for (std::size_t a = cell.size(); a-- > 0 && ++cell[a] == copy.task.extent[a];) cell[a] = 0;
    }
    for (auto const& kernel : copy_kernels()) {
      if (!has_feature(kernel)) continue;
      use_copy_kernel(kernel);
      ASSERT_TRUE(run(copy, source) == expected) << copy.name << " by " << kernel.name;
    }
  }
  use_copy_kernel(before);
}

TEST(CopyKernels, end_with_memcpy_and_have_distinct_names) {
  std::set<std::string_view> names;
  for (auto const& kernel : copy_kernels()) names.insert(kernel.name);

  EXPECT_EQ(names.size(), copy_kernels().size());
  EXPECT_EQ(copy_kernels().back().name, "memcpy");
  EXPECT_TRUE(has_feature(copy_kernels().back()));
}

TEST(CopyKernels, the_fastest_bypasses_the_caches_where_one_can) {
  auto const kernels = copy_kernels();
  bool const some = std::any_of(kernels.begin(), kernels.end(), [](CopyKernel const& k) { return k.bypasses_caches; });

  auto const& fastest = fastest_copy_kernel();

  EXPECT_TRUE(has_feature(fastest));
  EXPECT_EQ(fastest.bypasses_caches, some);
}

TEST(CopyKernels, memory_of_16_MiB_is_written_past_the_caches_unless_memcpy_is_asked_for) {
  auto const& before = copy_kernel();
  constexpr std::size_t least = std::size_t(16) << 20U;

  for_each_kernel([&](CopyKernel const& kernel) {
    use_copy_kernel(kernel);
    EXPECT_EQ(writes_past_caches(least), kernel.name != "memcpy") << kernel.name;
    EXPECT_FALSE(writes_past_caches(least - 1)) << kernel.name;
  });
  use_copy_kernel(before);
}

TEST(CopyKernels, the_choice_is_the_same_in_all_calls_and_shows) {
  auto const& kernel = copy_kernel();

  EXPECT_EQ(&copy_kernel(), &kernel);
  EXPECT_EQ(chosen_copy_kernel(), &kernel);
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks()}, Indices{comm.num_ranks()});
  RepartitionPlan const plan(comm, layout, layout);
  EXPECT_EQ(plan.stats().long_copies, kernel.name);
  EXPECT_NE(to_string(plan.stats()).find("  long copies by " + std::string(kernel.name) + "\n"), std::string::npos);
}

TEST(CopyKernels, an_unknown_name_is_an_error_that_lists_the_names) {
  for (auto const* value : {"sse", "AVX2", "avx2 ", "1"}) {
    auto const text = text_of_error(value);
    EXPECT_NE(text.find("GRATICULE_COPY is '" + std::string(value) + "'; valid are auto, "), std::string::npos) << text;
    for (auto const& kernel : copy_kernels()) EXPECT_NE(text.find(kernel.name), std::string::npos) << text;
  }
  for (auto const* value : {"", "auto", "memcpy"}) EXPECT_EQ(text_of_error(value), "") << value;
}

TEST(CopyKernels, a_name_that_the_processor_lacks_is_an_error) {
  for (auto const& kernel : copy_kernels()) {
    auto const text = text_of_error(std::string(kernel.name).c_str());
    if (has_feature(kernel))
      EXPECT_EQ(text, "") << kernel.name;
    else
      EXPECT_NE(text.find("needs " + std::string(kernel.feature)), std::string::npos) << text;
  }
}

TEST(CopyKernels, a_wrong_name_on_one_rank_ends_the_making_of_a_plan_on_all) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks()}, Indices{comm.num_ranks()});
  Variable const set("GRATICULE_COPY", comm.rank() == 0 ? "fast" : "auto");

  try {
    RepartitionPlan const plan(comm, layout, layout);
    ADD_FAILURE() << "no error";
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "BadOption");
    EXPECT_NE(std::string(error.what()).find("GRATICULE_COPY is 'fast'"), std::string::npos) << error.what();
  }
}

}  // namespace graticule
