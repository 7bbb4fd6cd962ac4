// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/device.hpp>
#include <graticule/models/threads.hpp>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

namespace graticule::models {
namespace test_threads {

TEST(TorchThreads, are_as_many_as_were_asked_for_last) {
  int const before = at::get_num_threads();

  for (int const num_threads : {3, 1, 2}) {
    use_torch_threads(num_threads);
    EXPECT_EQ(at::get_num_threads(), num_threads);
    // One operation at a time.
    EXPECT_EQ(at::get_num_interop_threads(), 1);
  }

  use_torch_threads(before);
}

TEST(TorchVersion, is_that_of_the_headers) {
  auto const major_minor = std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + ".";
  EXPECT_TRUE(torch_version().starts_with(major_minor)) << torch_version();
}

}  // namespace test_threads
}  // namespace graticule::models
