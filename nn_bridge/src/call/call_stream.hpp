// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/repartition/device_queue.hpp>

#include <torch/torch.h>

#include <optional>

namespace graticule::nn::detail {

/// LibTorch's current stream of a tensor's device, in order of which a call of the engine runs; nothing for host
/// tensors.
///
/// The stream is asked for when a call starts, in the thread that makes it: in a backward this is the one that autograd
/// has chosen, that of the forward.
class CallStream {
 public:
  CallStream() = default;
  /// @throws `Unsupported` while the stream is captured into a graph, or for a device that Kokkos does not use
  explicit CallStream(torch::Tensor const& tensor);

  /// Of the engine; `{}` on the host.
  [[nodiscard]] DeviceQueue const& queue() const noexcept { return queue_; }
  /// The call goes on after what is in the stream that is current now.
  void follow_current() const;
  /// What is put into the stream that is current now runs after the call.
  void precede_current() const;

 private:
  std::optional<c10::Stream> stream_;
  DeviceQueue queue_;
};

}  // namespace graticule::nn::detail
