// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/memory.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>
#include <unistd.h>

namespace graticule {
namespace test_memory {

long num_page_faults() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt;
}

/// Fills a new tensor of 64 MiB: LibTorch's memory of that size is mapped afresh by default.
void use_large_tensor() { torch::empty({64 << 20}, torch::kByte).fill_(1); }

TEST(KeepFreedMemory, lets_the_next_tensor_of_a_size_touch_no_new_page) {
#if !defined(__GLIBC__)
  GTEST_SKIP() << "the device has another C library";
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has an allocator of its own";
#else
  long const num_pages = (64L << 20) / ::sysconf(_SC_PAGESIZE);

  ASSERT_TRUE(nn::keep_freed_memory());
  // The C library keeps some small pieces between the first blocks, which lie one after the other for that reason.
  for (int step = 0; step < 12; ++step) use_large_tensor();
  long const before = num_page_faults();
  use_large_tensor();

  EXPECT_LT(num_page_faults() - before, num_pages / 10);
#endif
}

}  // namespace test_memory
}  // namespace graticule
