// SPDX-License-Identifier: BSD-3-Clause
// The guarded device as a device of LibTorch (`PrivateUse1`): tensors that host code cannot touch, streams whose work
// runs late; and what tests need that run on it or on a GPU.
#pragma once

#include "devices/gpu_memory.hpp"
#include "devices/guarded_device.hpp"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <cstdlib>
#include <optional>
#include <string_view>

namespace graticule::test {

/// A device of LibTorch whose memory is that of the guarded device. The first call registers it.
///
/// Memory, streams and events are its own. Operators run on the host's kernels, as work of the current stream, on the
/// device's memory itself: those that write to tensors they are given return at once, those that make tensors of sizes
/// that only they know wait for their stream.
/// @param index by default `GRATICULE_TEST_DEVICE_NUMBER`, and 0 without. The engine's own work, outside of streams, is
///              done on device 0
[[nodiscard]] torch::Device guarded_torch_device(std::optional<int> index = {});

/// A stream of that device.
[[nodiscard]] c10::Stream new_guarded_stream(std::optional<int> index = {});

/// The device of a test: the guarded device, or where `gpu_is_wanted` the GPU on which Kokkos was started. LibTorch
/// calls it CUDA, also with HIP. Convolutions of floats are not rounded to TF32 there.
[[nodiscard]] torch::Device test_torch_device();
/// A stream of that device.
[[nodiscard]] c10::Stream new_test_stream();
/// Fails the test for each access of the host to the guarded device since the last call.
void expect_no_host_access();
/// Why a test that counts or plants something is skipped where `gpu_is_wanted`.
inline constexpr char const* needs_guarded_device = "this is about the guarded device";
/// Ranks of a node read device memory of each other; else values pass through the host (`GRATICULE_GPU_IPC=0`).
[[nodiscard]] inline bool peers_read_device() {
  char const* const choice = std::getenv("GRATICULE_GPU_IPC");
  return choice == nullptr || std::string_view(choice) != "0";
}

/// Makes `stream` claim that it is captured into a graph.
void set_captured(c10::Stream const& stream, bool captured);
/// Makes `stream` the current one of its device in this thread, until the end of the scope.
class StreamScope {
 public:
  explicit StreamScope(c10::Stream const& stream);
  StreamScope(StreamScope const&) = delete;
  StreamScope& operator=(StreamScope const&) = delete;
  ~StreamScope();

 private:
  c10::Stream before_;
};

/// Runs `action` in `stream`, after what is in the current one, which goes on after it.
template <class Action>
void run_in(c10::Stream const& stream, Action const& action) {
  auto const current = c10::impl::VirtualGuardImpl(stream.device_type()).getStream(stream.device());
  c10::Event before(stream.device_type());
  before.record(current);
  before.block(stream);
  {
    StreamScope const scope(stream);
    action();
  }
  c10::Event after(stream.device_type());
  after.record(stream);
  after.block(current);
}

/// Moves a tensor, such as a parameter, with all that refer to it. `Module::to` does not do so to the guarded device:
/// LibTorch moves parameters between its own devices only.
void move_to(torch::Tensor& tensor, torch::Device const& device);
/// The same for all parameters and buffers.
void move_to(torch::nn::Module& module, torch::Device const& device);

/// Copies between host memory and the guarded device since the last call.
struct TensorCopies {
  long to_host = 0;
  long to_device = 0;
  long bytes_to_host = 0;
  long bytes_to_device = 0;
  long bytes_pageable = 0;  ///< of both, those that came from or went to host memory that is not pinned
};
[[nodiscard]] TensorCopies take_tensor_copies();

/// How often the host has waited for the guarded device since the last call, as it would wait for a GPU. The engine's
/// own waits are not among them.
struct HostWaits {
  long synchronized = 0;  ///< a stream, a device or an event; asking whether one has ended counts, too
  long copies = 0;        ///< that return when their values are there
  long operators = 0;     ///< whose results the host has to know, such as the number of values that are not zero
};
[[nodiscard]] HostWaits take_host_waits();

}  // namespace graticule::test
