// SPDX-License-Identifier: BSD-3-Clause
#include "call_stream.hpp"

#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace graticule::nn::detail {

namespace {

/// LibTorch has pinned memory for these.
bool is_staged(torch::Tensor const& tensor) { return tensor.is_cuda() || tensor.is_hip() || tensor.is_privateuseone(); }

/// LibTorch 2.9 and later say whether a stream is captured; before, the engine finds out.
template <class Implementation>
bool is_captured(Implementation const& implementation, c10::Stream const& stream) {
  if constexpr (requires { implementation.isStreamCapturing(stream); })
    return implementation.isStreamCapturing(stream);
  else
    return false;
}

/// Where LibTorch does not hand out its streams, the call is made between two waits of the host.
template <class Stream>
DeviceQueue queue_in(Stream const& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return queue_of_stream(stream.native_handle(), stream.device_index());
  } else {
    stream.synchronize();
    return {};
  }
}

c10::Stream current_stream(c10::Device const& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void put_after(c10::Stream const& later, c10::Stream const& earlier) {
  if (later == earlier) return;
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace

CallStream::CallStream(torch::Tensor const& tensor) {
  if (tensor.is_cpu()) return;
  auto const device = tensor.device();
  auto const stream = current_stream(device);
  if (is_captured(c10::impl::VirtualGuardImpl(device.type()), stream))
    throw Error("Unsupported", "a sharded call while a stream of " + c10::str(device) +
                                   " is captured into a graph: messages of MPI cannot be replayed with it; capture the "
                                   "parts between sharded layers");
  queue_ = queue_in(stream);
  stream_ = stream;
}

DeviceQueue queue_of(torch::Tensor const& tensor) { return CallStream(tensor).queue(); }

void CallStream::follow_current() const {
  if (stream_) put_after(*stream_, current_stream(stream_->device()));
}

void CallStream::precede_current() const {
  if (stream_) put_after(current_stream(stream_->device()), *stream_);
}

bool engine_reaches(torch::Tensor const& tensor) {
  if (tensor.is_cpu() || tensor.is_cuda() || tensor.is_hip()) return true;
  return tensor.is_privateuseone() && graticule::detail::installed_device() != nullptr;
}

torch::Tensor message_memory(c10::IntArrayRef sizes, torch::Tensor const& like) {
  return torch::empty(sizes, torch::TensorOptions(like.scalar_type()).pinned_memory(is_staged(like)));
}

torch::Tensor as_message(torch::Tensor const& x) {
  if (x.is_cpu()) return x.contiguous();
  auto held = message_memory(x.sizes(), x);
  held.copy_(x, /*non_blocking=*/is_staged(x));
  return held;
}

void await_messages(torch::Device const& device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl const implementation(device.type());
  implementation.synchronizeStream(implementation.getStream(device));
}

void keep_for_current_stream(torch::Tensor const& x) {
  if (x.is_cpu()) return;
  c10::impl::VirtualGuardImpl const device(x.device().type());
  device.recordDataPtrOnStream(x.storage().data_ptr(), device.getStream(x.device()));
}

void WritingStreams::add_current(torch::Device const& device) {
  if (device.is_cpu()) return;
  auto const stream = current_stream(device);
  if (std::find(streams_.begin(), streams_.end(), stream) == streams_.end()) streams_.push_back(stream);
}

void WritingStreams::precede_current() const {
  for (auto const& stream : streams_) put_after(current_stream(stream.device()), stream);
}

torch::Tensor tensor_over(void* memory, Index numel, torch::ScalarType type, torch::Device const& device) {
  return at::for_blob(memory, {numel})
      .options(torch::TensorOptions(type).device(device))
      .target_device(device)
      .make_tensor();
}

std::vector<double> values_on_host(std::vector<torch::Tensor> const& numbers) {
  torch::NoGradGuard const no_grad;
  struct Held {
    torch::Device device;
    std::vector<torch::Tensor> numbers;
    std::vector<std::size_t> places;
    torch::Tensor values;
  };
  std::vector<Held> by_device;
  std::vector<double> result(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].is_cpu()) {
      result[i] = numbers[i].item<double>();
      continue;
    }
    auto const device = numbers[i].device();
    auto held = std::find_if(by_device.begin(), by_device.end(), [&](auto const& h) { return h.device == device; });
    if (held == by_device.end()) held = by_device.insert(held, Held{device, {}, {}, {}});
    held->numbers.push_back(numbers[i].detach().to(torch::kDouble).squeeze());
    held->places.push_back(i);
  }
  for (auto& held : by_device) held.values = as_message(torch::stack(held.numbers));
  for (auto const& held : by_device) {
    await_messages(held.device);
    auto const* const values = held.values.const_data_ptr<double>();
    for (std::size_t i = 0; i < held.places.size(); ++i) result[held.places[i]] = values[i];
  }
  return result;
}

MessageStream::MessageStream(torch::Device const& device) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

MessageStream::~MessageStream() {
  try {
    synchronize();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the device has failed, and says so in the next call.
  }
}

void MessageStream::follow_current() const {
  if (stream_) put_after(*stream_, current_stream(stream_->device()));
}

void MessageStream::precede_current() const {
  if (stream_) put_after(current_stream(stream_->device()), *stream_);
}

DeviceQueue MessageStream::queue() const { return stream_ ? queue_in(*stream_) : DeviceQueue(); }

void MessageStream::mark() {
  if (!stream_) return;
  if (!mark_) mark_.emplace(stream_->device_type());
  mark_->record(*stream_);
}

void MessageStream::synchronize() const {
  if (stream_) c10::impl::VirtualGuardImpl(stream_->device_type()).synchronizeStream(*stream_);
}

}  // namespace graticule::nn::detail
