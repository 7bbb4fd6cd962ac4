// SPDX-License-Identifier: BSD-3-Clause
// What `shard` shares with its counterpart in Python.
#pragma once

#include <graticule/nn_bridge/call/traffic.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace graticule::nn::detail {

/// Keeps the random state: a counterpart fills parameters of its own before it is given those of the serial layer.
class KeptRandomState {
 public:
  KeptRandomState() : generator_(at::detail::getDefaultCPUGenerator()), state_(generator_.get_state()) {}
  KeptRandomState(KeptRandomState const&) = delete;
  KeptRandomState& operator=(KeptRandomState const&) = delete;
  ~KeptRandomState() { generator_.set_state(state_); }

 private:
  at::Generator generator_;
  torch::Tensor state_;
};

/// LibTorch's, which throws for tensors without cells.
struct LocalResponse : torch::nn::Module {
  explicit LocalResponse(torch::nn::LocalResponseNormOptions const& options) : norm(options) {}
  torch::Tensor forward(torch::Tensor const& x) { return x.numel() > 0 ? norm(x) : x * 1; }

  torch::nn::LocalResponseNorm norm;
};

template <class Serial>
concept HasRunningStatistics = requires(Serial s) {
  s.running_mean;
  s.num_batches_tracked;
};

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
