// SPDX-License-Identifier: BSD-3-Clause
// Tensors of a device in calls of the engine, and on their way to other ranks through host memory.
#pragma once

#include <graticule/partition/indices.hpp>
#include <graticule/repartition/device_queue.hpp>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

#include <optional>
#include <vector>

namespace graticule::nn::detail {

/// True for tensors in memory that the engine reaches: of the host, of the device of Kokkos, or of the one installed in
/// its place.
[[nodiscard]] bool engine_reaches(torch::Tensor const& tensor);

/// The engine's queue for a call on `tensor`: LibTorch's current stream of its device; `{}` on the host.
/// @throws `Unsupported` while the stream is captured into a graph, or for a device that this Kokkos cannot use
[[nodiscard]] DeviceQueue queue_of(torch::Tensor const& tensor);

/// An uninitialised host tensor of the type of `like`. For tensors of a device it lies in pinned memory, which LibTorch
/// keeps for the next ones, so that copies run in order of a stream.
[[nodiscard]] torch::Tensor message_memory(c10::IntArrayRef sizes, torch::Tensor const& like);

/// `x` as it travels: contiguous, on the host. Of a device, a copy in `message_memory`, which is there after
/// `await_messages`.
[[nodiscard]] torch::Tensor as_message(torch::Tensor const& x);
/// Blocks until what is in the current stream of `device` has completed; nothing on the host.
void await_messages(torch::Device const& device);

/// What has arrived, on `device`; copied in order of its current stream.
[[nodiscard]] inline torch::Tensor from_message(torch::Tensor const& held, torch::Device const& device) {
  return held.to(device, /*non_blocking=*/true);
}

/// The memory of a tensor that another stream may have made is not given to other tensors before the current stream of
/// its device has read it. Nothing on the host. @pre defined
void keep_for_current_stream(torch::Tensor const& x);

/// The streams of devices in which values were written; none on the host.
class WritingStreams {
 public:
  void clear() noexcept { streams_.clear(); }
  /// The current stream of `device`.
  void add_current(torch::Device const& device);
  /// What is put into the current streams of their devices from now on runs after what is in them now. Free where they
  /// are the current ones.
  void precede_current() const;

 private:
  std::vector<c10::Stream> streams_;
};

/// A flat tensor over memory of `device` that it does not own.
[[nodiscard]] torch::Tensor tensor_over(void* memory, Index numel, torch::ScalarType type, torch::Device const& device);

/// The values of tensors of one real number each, in order. Blocks once per device, for one copy of all of its numbers.
[[nodiscard]] std::vector<double> values_on_host(std::vector<torch::Tensor> const& numbers);
[[nodiscard]] inline double value_on_host(torch::Tensor const& number) { return values_on_host({number})[0]; }

/// A stream of a device for messages, separate from those that compute: waiting for it does not wait for computation,
/// except for what `follow_current` has put before it. On the host there is none, and nothing to wait for.
class MessageStream {
 public:
  explicit MessageStream(torch::Device const& device);
  MessageStream(MessageStream const&) = delete;
  MessageStream& operator=(MessageStream const&) = delete;
  /// Waits for its work, whose memory may be freed next.
  ~MessageStream();

  /// Makes it the current stream of this thread.
  [[nodiscard]] c10::OptionalStreamGuard use() const { return c10::OptionalStreamGuard(stream_); }
  /// It goes on after what is in the current stream of its device.
  void follow_current() const;
  /// What is put into the current stream of its device from now on runs after its work so far.
  void precede_current() const;
  /// Its work so far is what `has_passed` asks for.
  void mark();
  /// For the engine; none where LibTorch does not hand out its streams. @throws see `queue_of_stream`
  [[nodiscard]] DeviceQueue queue() const;
  /// Does not block.
  [[nodiscard]] bool has_passed() const { return !mark_ || mark_->query(); }
  void synchronize() const;

 private:
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> mark_;
};

}  // namespace graticule::nn::detail
