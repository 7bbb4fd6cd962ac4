// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/device.hpp>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

namespace graticule::models {
namespace test_device {

TEST(TorchDevices, are_counted_by_kind_and_otherwise_said_to_be_missing) {
  Index total = 0;
  for (std::string const kind : {"cuda", "hip"}) {
    auto const devices = torch_devices(kind);
    total += devices.count;
    if (devices.count > 0) {
      EXPECT_EQ(devices.missing, "");
    } else {
      EXPECT_TRUE(devices.missing.starts_with("LibTorch ")) << devices.missing;
      EXPECT_NE(devices.missing.find(kind == "hip" ? "HIP (ROCm)" : "CUDA"), std::string::npos) << devices.missing;
    }
  }

  EXPECT_EQ(total, Index(torch::cuda::device_count()));
}

TEST(TorchDevices, of_rocm_have_the_names_of_cuda) {
  EXPECT_EQ(torch_device_name("hip"), "cuda");
  EXPECT_EQ(torch_device_name("hip:1"), "cuda:1");
  EXPECT_EQ(torch_device_name("cuda:1"), "cuda:1");
  EXPECT_EQ(torch_device_name("cpu"), "cpu");
}

TEST(TorchDevices, have_no_memory_of_the_host) { EXPECT_FALSE(torch_device_memory("cpu").has_value()); }

}  // namespace test_device
}  // namespace graticule::models
