// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/memory.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace graticule {
namespace test_memory {

constexpr Index mebibyte = Index(1) << 20U;

torch::Tensor tensor_of(Index num_bytes) { return torch::empty({num_bytes}, torch::kByte); }

long num_page_faults() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt;
}

class TensorMemory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the sanitizer has an allocator of its own";
#endif
    nn::Domain const first;
    nn::TensorMemory::release_kept();
    before_ = nn::TensorMemory::now();
  }
  [[nodiscard]] Index used() const { return nn::TensorMemory::now().used_bytes - before_.used_bytes; }
  [[nodiscard]] static Index kept() { return nn::TensorMemory::now().kept_bytes; }

 private:
  nn::TensorMemory before_;
};

TEST_F(TensorMemory, of_a_freed_tensor_serves_the_next_of_any_size_that_fits) {
  auto a = tensor_of(64 * mebibyte).fill_(1);
  auto const* const place = a.data_ptr();
  EXPECT_EQ(used(), 64 * mebibyte);
  a = torch::Tensor();
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(kept(), 64 * mebibyte);
  long const num_faults = num_page_faults();

  auto const b = tensor_of(16 * mebibyte).fill_(2);
  auto const c = tensor_of(48 * mebibyte).fill_(3);

  EXPECT_LT(num_page_faults() - num_faults, 64 * mebibyte / ::sysconf(_SC_PAGESIZE) / 10);
  EXPECT_EQ(b.data_ptr(), place);
  EXPECT_EQ(used(), 64 * mebibyte);
  EXPECT_EQ(kept(), 0);
  EXPECT_EQ(b.sum().item<Index>(), 2 * 16 * mebibyte);
  EXPECT_EQ(c.sum().item<Index>(), 3 * 48 * mebibyte);
}

TEST_F(TensorMemory, of_neighbours_joins) {
  auto a = tensor_of(64 * mebibyte);
  auto const* const place = a.data_ptr();
  a = torch::Tensor();
  for (int order = 0; order < 2; ++order) {
    std::vector<torch::Tensor> parts;
    for (int part = 0; part < 4; ++part) parts.push_back(tensor_of(16 * mebibyte));
    if (order) std::swap(parts[1], parts[2]);
    while (!parts.empty()) parts.pop_back();

    EXPECT_EQ(tensor_of(64 * mebibyte).data_ptr(), place);
  }
}

/// Blocks of random sizes, of which those in use are at most 100 MiB.
TEST_F(TensorMemory, that_is_kept_does_not_raise_the_peak) {
  std::mt19937 random(7);
  std::vector<torch::Tensor> alive;
  Index most = 0;
  for (int step = 0; step < 2000; ++step) {
    Index const size = mebibyte + Index(random()) % (20 * mebibyte);
    while (!alive.empty() && (used() + size > 100 * mebibyte || Index(random()) % 4 == 0))
      alive.erase(alive.begin() + Index(random()) % Index(alive.size()));
    alive.push_back(tensor_of(size));
    most = std::max(most, used());

    ASSERT_LE(used() + kept(), most);
  }
}

TEST_F(TensorMemory, of_a_peak_long_ago_is_returned) {
  (void)tensor_of(256 * mebibyte);
  EXPECT_EQ(kept(), 256 * mebibyte);

  for (int step = 0; step < 2 * 16384; ++step) (void)tensor_of(2 * mebibyte);

  EXPECT_LE(kept(), 2 * mebibyte);
}

TEST_F(TensorMemory, is_released_on_request) {
  (void)tensor_of(32 * mebibyte);
  auto const alive = tensor_of(8 * mebibyte).fill_(5);

  nn::TensorMemory::release_kept();

  EXPECT_EQ(kept(), 0);
  EXPECT_EQ(alive.sum().item<Index>(), 5 * 8 * mebibyte);
}

TEST_F(TensorMemory, of_small_tensors_is_that_of_libtorch) {
  auto const small = tensor_of(mebibyte - 1);

  EXPECT_EQ(used(), 0);
}

TEST_F(TensorMemory, belongs_to_all_threads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int step = 0; step < 30; ++step) {
        auto const x = tensor_of(mebibyte * (1 + (step + t) % 3)).fill_(t);
        auto const y = x.clone();
        EXPECT_TRUE((y == t).all().item<bool>());
      }
    });
  for (auto& thread : threads) thread.join();

  EXPECT_EQ(used(), 0);
}

TEST_F(TensorMemory, goes_with_a_fork) {
  (void)tensor_of(8 * mebibyte);
  auto const alive = tensor_of(4 * mebibyte).fill_(1);
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(60);
    void* const memory = c10::GetAllocator(c10::DeviceType::CPU)->raw_allocate(std::size_t(4 * mebibyte));
    c10::GetAllocator(c10::DeviceType::CPU)->raw_deallocate(memory);
    ::_exit(memory ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;

  ASSERT_EQ(::waitpid(child, &status, 0), child);

  EXPECT_EQ(status, 0);
  EXPECT_EQ(alive.sum().item<Index>(), 4 * mebibyte);
}

/// `raw_deallocate` gets blocks of both allocators.
TEST_F(TensorMemory, takes_back_what_it_gave_through_pointers) {
  auto* const allocator = c10::GetAllocator(c10::DeviceType::CPU);
  for (Index const size : {Index(100), mebibyte, 3 * mebibyte + 1}) {
    void* const memory = allocator->raw_allocate(std::size_t(size));
    std::memset(memory, 1, std::size_t(size));
    allocator->raw_deallocate(memory);
  }

  EXPECT_EQ(used(), 0);
}

}  // namespace test_memory
}  // namespace graticule
