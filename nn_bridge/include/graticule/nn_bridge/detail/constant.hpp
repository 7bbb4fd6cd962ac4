// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace graticule::nn::detail {

/// A tensor of a set-up, made on the host and used on the device of the input. It is copied to each device and
/// type once, because a copy from ordinary memory waits for all work of the device's queue. All streams may use what
/// one has copied, also when the object is gone before they have. Copies share their tensors; thread-safe.
class Constant {
 public:
  Constant() = default;
  /// @param host on the CPU; nobody writes to it any more
  explicit Constant(torch::Tensor host);

  [[nodiscard]] torch::Tensor const& on_host() const noexcept { return host_; }
  /// On `device`, in `type` (default: as on the host); without gradient.
  [[nodiscard]] torch::Tensor on(torch::Device device, std::optional<torch::ScalarType> type = {}) const;

 private:
  struct Copies {
    std::mutex mutex;
    std::vector<torch::Tensor> tensors;
  };
  torch::Tensor host_;
  std::shared_ptr<Copies> copies_;
};

}  // namespace graticule::nn::detail
