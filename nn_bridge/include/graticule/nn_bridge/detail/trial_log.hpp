// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/traffic.hpp>

#include <torch/torch.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace graticule::nn::detail {

/// A call of a layer that `shard` has converted.
struct LoggedCall {
  std::string path;
  torch::Tensor output;
  Traffic traffic;
};

/// The calls of this thread while it lives; not nested.
class TrialLog {
 public:
  TrialLog() { current() = this; }
  TrialLog(TrialLog const&) = delete;
  TrialLog& operator=(TrialLog const&) = delete;
  ~TrialLog() { current() = nullptr; }

  [[nodiscard]] static TrialLog*& current() noexcept {
    thread_local TrialLog* log = nullptr;
    return log;
  }

  std::vector<LoggedCall> calls;
  std::unordered_map<c10::TensorImpl const*, std::string> names;  ///< of the layers' parameters
};

}  // namespace graticule::nn::detail
