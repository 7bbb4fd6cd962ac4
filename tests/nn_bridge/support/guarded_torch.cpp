// SPDX-License-Identifier: BSD-3-Clause
#include "guarded_torch.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace graticule::test {

namespace {

constexpr auto device_type = c10::DeviceType::PrivateUse1;

GuardedDevice& guarded() { return GuardedDevice::instance(); }

c10::Stream stream_of(int device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(device_type, c10::DeviceIndex(device)), id);
}

/// Streams of all devices: number 0 of each is its default queue.
struct Streams {
  std::mutex mutex;
  std::array<std::deque<DeviceQueue>, GuardedDevice::num_devices> queues;
  std::set<std::pair<int, c10::StreamId>> captured;

  static Streams& get() {
    static auto* const streams = [] {
      auto* const made = new Streams;
      for (int d = 0; d < GuardedDevice::num_devices; ++d)
        made->queues[std::size_t(d)].push_back(guarded().queue_of_stream(nullptr, d));
      return made;
    }();
    return *streams;
  }
  DeviceQueue queue(c10::Stream const& stream) {
    std::lock_guard const lock(mutex);
    return queues.at(std::size_t(stream.device_index())).at(std::size_t(stream.id()));
  }
  c10::Stream make(int device) {
    std::lock_guard const lock(mutex);
    auto& of_device = queues.at(std::size_t(device));
    of_device.push_back(guarded().make_queue(device));
    return stream_of(device, c10::StreamId(of_device.size() - 1));
  }
  /// One of a few, in turn.
  c10::Stream from_pool(int device) {
    static constexpr std::size_t size = 8;
    static std::array<std::vector<c10::Stream>, GuardedDevice::num_devices> pools;
    static std::array<std::size_t, GuardedDevice::num_devices> taken{};
    static std::mutex pool_mutex;
    std::lock_guard const lock(pool_mutex);
    auto& pool = pools.at(std::size_t(device));
    if (pool.size() < size) pool.push_back(make(device));
    return pool[taken.at(std::size_t(device))++ % pool.size()];
  }
};

thread_local int current_device = 0;
thread_local std::array<c10::StreamId, GuardedDevice::num_devices> current_streams{};

c10::Stream current_stream(int device) { return stream_of(device, current_streams.at(std::size_t(device))); }

DeviceQueue current_queue(c10::Device const& device) { return Streams::get().queue(current_stream(device.index())); }

/// What an operator threw on the device, until the host waits for it.
std::mutex failure_mutex;
std::exception_ptr failure;

void note_failure() {
  std::lock_guard const lock(failure_mutex);
  if (!failure) failure = std::current_exception();
}

void throw_failure() {
  std::lock_guard const lock(failure_mutex);
  if (auto const thrown = std::exchange(failure, nullptr)) std::rethrow_exception(thrown);
}

void fence(DeviceQueue const& queue) {
  guarded().fence(queue);
  throw_failure();
}

std::atomic<long> num_synchronized{0};
std::atomic<long> num_waiting_copies{0};
std::atomic<long> num_waiting_operators{0};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return device_type; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {device_type, c10::DeviceIndex(std::exchange(current_device, int(device.index())))};
  }
  c10::Device getDevice() const override { return {device_type, c10::DeviceIndex(current_device)}; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.has_index() ? device.index() : current_device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device.index(), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return Streams::get().from_pool(device.index());
  }
  c10::Stream getNewStream(c10::Device device, int) const override { return Streams::get().make(device.index()); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    auto const device = std::size_t(stream.device_index());
    return stream_of(stream.device_index(), std::exchange(current_streams.at(device), stream.id()));
  }
  void* getStreamNativeHandle(c10::Stream const stream) const override {
    return GuardedDevice::stream_of(Streams::get().queue(stream));
  }
  void destroyEvent(void* event, c10::DeviceIndex const) const noexcept override {
    delete static_cast<QueuePoint*>(event);
  }
  void record(void** event, c10::Stream const& stream, c10::DeviceIndex const, c10::EventFlag const) const override {
    auto point = guarded().record(Streams::get().queue(stream));
    if (*event)
      *static_cast<QueuePoint*>(*event) = std::move(point);
    else
      *event = new QueuePoint(std::move(point));
  }
  void block(void* event, c10::Stream const& stream) const override {
    if (event) guarded().wait(Streams::get().queue(stream), *static_cast<QueuePoint*>(event));
  }
  bool queryEvent(void* event) const override {
    ++num_synchronized;
    return !event || guarded().has_passed(*static_cast<QueuePoint*>(event));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return GuardedDevice::num_devices; }
  bool queryStream(c10::Stream const& stream) const override {
    ++num_synchronized;
    return guarded().has_passed(guarded().record(Streams::get().queue(stream)));
  }
  void synchronizeStream(c10::Stream const& stream) const override {
    ++num_synchronized;
    fence(Streams::get().queue(stream));
  }
  /// Virtual in LibTorch 2.13, not in 2.11.
  bool isStreamCapturing(c10::Stream const& stream) const {  // NOLINT(modernize-use-override)
    auto& streams = Streams::get();
    std::lock_guard const lock(streams.mutex);
    return streams.captured.contains({int(stream.device_index()), stream.id()});
  }
  void synchronizeEvent(void* event) const override {
    ++num_synchronized;
    if (event) guarded().wait_for(*static_cast<QueuePoint*>(event));
    throw_failure();
  }
  void synchronizeDevice(c10::DeviceIndex const device) const override {
    ++num_synchronized;
    guarded().fence_all(device);
    throw_failure();
  }
  void recordDataPtrOnStream(c10::DataPtr const& data, c10::Stream const& stream) const override;
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

/// A block, and the streams that use it besides the one it was allocated for.
struct Block {
  void* memory;
  DeviceQueue queue;
  std::mutex mutex;
  std::vector<DeviceQueue> others;

  void add(DeviceQueue const& user) {
    std::lock_guard const lock(mutex);
    for (auto const& other : others)
      if (other.instance() == user.instance()) return;
    if (user.instance() != queue.instance()) others.push_back(user);
  }
};

void release_block(void* context) {
  std::unique_ptr<Block> const block(static_cast<Block*>(context));
  for (auto const& other : block->others) guarded().wait(block->queue, guarded().record(other));
  guarded().release_in_order(block->queue, block->memory);
}

/// Memory that is freed in order of the stream for which it was allocated, as LibTorch's allocators reuse it.
struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::Device const device(device_type, c10::DeviceIndex(current_device));
    if (bytes == 0) return {nullptr, device};
    void* const memory = guarded().allocate(bytes, current_device);
    if (memory == nullptr) throw std::bad_alloc();
    return {memory, new Block{memory, current_queue(device), {}, {}}, &release_block, device};
  }
  void copy_data(void* to, void const* from, std::size_t bytes) const override {
    guarded().copy(current_queue({device_type, c10::DeviceIndex(current_device)}), to, from, bytes);
  }
};

Allocator allocator;

/// Host memory that copies use while they run.
struct PinnedAllocator final : c10::Allocator {
  std::mutex mutex;
  std::map<std::byte const*, std::size_t> blocks;

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::kCPU};
    auto* const memory = static_cast<std::byte*>(guarded().allocate_pinned(bytes));
    if (memory == nullptr) throw std::bad_alloc();
    std::lock_guard const lock(mutex);
    blocks[memory] = bytes;
    return {memory, memory, &release, c10::kCPU};
  }
  static void release(void* memory);
  void copy_data(void* to, void const* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
  [[nodiscard]] bool holds(void const* memory) {
    std::lock_guard const lock(mutex);
    auto const* const at = static_cast<std::byte const*>(memory);
    auto const after = blocks.upper_bound(at);
    return after != blocks.begin() && at < std::prev(after)->first + std::prev(after)->second;
  }
};

PinnedAllocator& pinned = *new PinnedAllocator;  // tensors may outlive it otherwise

void PinnedAllocator::release(void* memory) {
  {
    std::lock_guard const lock(pinned.mutex);
    pinned.blocks.erase(static_cast<std::byte*>(memory));
  }
  guarded().release_pinned(memory);
}

void Guard::recordDataPtrOnStream(c10::DataPtr const& data, c10::Stream const& stream) const {
  if (data.get_context() == nullptr) return;
  static_cast<Block*>(data.get_context())->add(Streams::get().queue(stream));
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return GuardedDevice::num_devices; }
  void setCurrentDevice(c10::DeviceIndex device) const override { current_device = device; }
  c10::DeviceIndex getCurrentDevice() const override { return c10::DeviceIndex(current_device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return c10::DeviceIndex(std::exchange(current_device, int(device)));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  at::Generator const& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned; }
  bool isPinnedPtr(void const* memory) const override { return pinned.holds(memory); }
};

std::atomic<long> num_to_host{0};
std::atomic<long> num_to_device{0};
std::atomic<long> bytes_to_host{0};
std::atomic<long> bytes_to_device{0};
std::atomic<long> bytes_pageable{0};

bool on_device(at::Tensor const& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

/// A view may stand for conjugate or negative values of what lies in memory.
void take_bits(at::Tensor const& to, at::Tensor const& from) {
  if (from.is_conj()) to._set_conj(true);
  if (from.is_neg()) to._set_neg(true);
}

/// The memory of a tensor of the device as a host tensor, for kernels that run as work of the device.
at::Tensor seen_by_kernels(at::Tensor const& tensor) {
  auto const& storage = tensor.storage();
  c10::Storage const alias(c10::Storage::use_byte_size_t(), storage.nbytes(),
                           c10::DataPtr(storage.data_ptr().get(), c10::kCPU), nullptr, false);
  auto result = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(alias),
                                                         c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* const impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  take_bits(result, tensor);
  return result;
}

/// Runs `kernel` as work of a queue, with the thread state of the caller.
template <class Kernel>
void launch(DeviceQueue const& queue, Kernel kernel) {
  at::ThreadLocalState const state;
  guarded().launch(queue, [state, kernel = std::move(kernel)]() mutable {
    try {
      at::ThreadLocalStateGuard const thread(state);
      at::AutoDispatchBelowADInplaceOrView const below;
      kernel();
    } catch (...) {
      note_failure();
    }
  });
}

/// A tensor of the device with what a kernel has made in host memory.
at::Tensor brought_over(at::Tensor const& made, c10::Device const& device) {
  auto const strides =
      made.is_non_overlapping_and_dense() ? made.strides().vec() : at::Tensor(made.contiguous()).strides().vec();
  auto result = at::empty_strided(made.sizes(), strides, made.options().device(device));
  if (made.numel() > 0)
    launch(current_queue(device), [to = seen_by_kernels(result), from = made]() mutable { to.copy_(from); });
  return result;
}

/// A view, as a kernel has made it, of what belongs to `base`.
at::Tensor view_of(at::Tensor const& base, at::Tensor const& seen) {
  // The keys of the base, those of autograd among them: without, the view would count as one of inference mode.
  auto result = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                         base.key_set(), seen.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(seen.sizes(), seen.strides(), seen.storage_offset());
  result._set_conj(seen.is_conj());
  result._set_neg(seen.is_neg());
  return result;
}

/// On a GPU the host waits for these: what they return is known to the host, or its size depends on values.
bool waits_on_a_gpu(c10::OperatorHandle const& op, torch::jit::Stack const& inputs) {
  static std::set<std::string> const sized_by_values{
      "aten::nonzero",  "aten::masked_select", "aten::_unique",           "aten::_unique2",
      "aten::bincount", "aten::unique_dim",    "aten::unique_consecutive"};
  for (auto const& result : op.schema().returns())
    if (result.type()->kind() != c10::TypeKind::TensorType && result.type()->kind() != c10::TypeKind::ListType)
      return true;
  if (sized_by_values.contains(op.schema().name())) return true;
  bool const indexes = op.schema().name().starts_with("aten::index") || op.schema().name() == "aten::_index_put_impl_";
  for (auto const& input : inputs) {
    if (!indexes || !input.isOptionalTensorList()) continue;
    for (std::optional<at::Tensor> const& index : input.toOptionalTensorVector())
      if (index && index->defined() && index->scalar_type() == at::kBool) return true;
  }
  return false;
}

/// One call of an operator: its arguments as kernels see them, and what becomes of its results.
class Call {
 public:
  Call(c10::OperatorHandle op, torch::jit::Stack const& stack) : op_(std::move(op)) {
    auto const& arguments = op_.schema().arguments();
    auto const first = stack.size() - arguments.size();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      auto const* const alias = arguments[i].alias_info();
      inputs_.push_back(converted(stack[first + i], alias && alias->isWrite()));
    }
    if (!device_) device_ = c10::Device(device_type, c10::DeviceIndex(current_device));
  }

  void run(torch::jit::Stack* stack) {
    c10::impl::VirtualGuardImpl(device_type).setDevice(*device_);
    auto const queue = current_queue(*device_);
    if (!on_device_.empty() && waits_on_a_gpu(op_, inputs_)) ++num_waiting_operators;
    if (writes_only()) {
      launch(queue, [op = op_, inputs = inputs_]() mutable { op.callBoxed(&inputs); });
      auto const results = written_results(*stack);
      torch::jit::drop(*stack, op_.schema().arguments().size());
      stack->insert(stack->end(), results.begin(), results.end());
      return;
    }
    auto outputs = std::make_shared<torch::jit::Stack>(inputs_);
    launch(queue, [op = op_, outputs] { op.callBoxed(outputs.get()); });
    fence(queue);
    take_resized();
    auto const given = written_results(*stack);
    torch::jit::drop(*stack, op_.schema().arguments().size());
    for (std::size_t r = 0; r < outputs->size(); ++r)
      stack->push_back(given[r].isNone() ? returned((*outputs)[r]) : given[r]);
  }

 private:
  struct Resized {
    at::Tensor given;
    at::Tensor seen;
  };

  at::Tensor converted(at::Tensor const& tensor, bool written) {
    if (!on_device(tensor)) return tensor.defined() && tensor.dim() == 0 ? tensor.clone() : tensor;
    if (!device_) device_ = tensor.device();
    on_device_.push_back(tensor);
    // Operators that do not know the sizes of their results give them on their own.
    if (written && tensor.numel() == 0) {
      auto seen = at::empty(tensor.sizes(), tensor.options().device(c10::kCPU));
      resized_.push_back({tensor, seen});
      return seen;
    }
    return seen_by_kernels(tensor);
  }

  c10::IValue converted(c10::IValue const& value, bool written) {
    if (value.isTensor()) return converted(value.toTensor(), written);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (at::Tensor const& tensor : value.toTensorVector()) list.push_back(converted(tensor, written));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (std::optional<at::Tensor> const& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(converted(*tensor, written)) : std::nullopt);
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == device_type) {
      device_ = value.toDevice();
      if (!device_->has_index()) device_ = c10::Device(device_type, c10::DeviceIndex(current_device));
      return c10::Device(c10::kCPU);
    }
    return value;
  }

  /// All results are tensors that were given, of sizes that are known.
  [[nodiscard]] bool writes_only() const {
    if (!resized_.empty() || on_device_.empty()) return false;
    bool writes = false;
    for (auto const& argument : op_.schema().arguments())
      writes = writes || (argument.alias_info() && argument.alias_info()->isWrite());
    for (auto const& result : op_.schema().returns())
      if (!result.alias_info() || !result.alias_info()->isWrite()) return false;
    return writes;
  }

  /// For each result the argument that it is; none where it is new or a view.
  [[nodiscard]] std::vector<c10::IValue> written_results(torch::jit::Stack const& stack) const {
    auto const& arguments = op_.schema().arguments();
    auto const first = stack.size() - arguments.size();
    std::vector<c10::IValue> results;
    for (auto const& result : op_.schema().returns()) {
      results.emplace_back();
      auto const* const alias = result.alias_info();
      if (!alias || !alias->isWrite()) continue;
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        auto const* const of_argument = arguments[i].alias_info();
        if (of_argument && of_argument->isWrite() && of_argument->beforeSets() == alias->beforeSets())
          results.back() = stack[first + i];
      }
    }
    return results;
  }

  void take_resized() const {
    for (auto const& [given, seen] : resized_) {
      given.resize_(seen.sizes());
      if (seen.numel() == 0) continue;
      launch(current_queue(*device_), [to = seen_by_kernels(given), from = seen]() mutable { to.copy_(from); });
    }
  }

  [[nodiscard]] at::Tensor returned(at::Tensor const& made) const {
    if (!made.defined()) return made;
    if (made.has_storage() && guarded().owns(made.storage().data_ptr().get()))
      for (auto const& given : on_device_)
        if (given.storage().data_ptr().get() == made.storage().data_ptr().get()) return view_of(given, made);
    return brought_over(made, *device_);
  }

  [[nodiscard]] c10::IValue returned(c10::IValue const& value) const {
    if (value.isTensor()) return returned(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (at::Tensor const& tensor : value.toTensorVector()) list.push_back(returned(tensor));
    return list;
  }

  c10::OperatorHandle op_;
  torch::jit::Stack inputs_;
  std::vector<at::Tensor> on_device_;
  std::vector<Resized> resized_;
  std::optional<c10::Device> device_;
};

void run_on_device(c10::OperatorHandle const& op, torch::jit::Stack* stack) {
  int const before = current_device;
  try {
    Call(op, *stack).run(stack);
  } catch (...) {
    current_device = before;
    throw;
  }
  current_device = before;
}

/// The same for a function of tensors; what it returns comes to the device.
std::vector<at::Tensor> compute(
    std::vector<at::Tensor> const& inputs,
    std::function<std::vector<at::Tensor>(std::vector<at::Tensor> const&)> const& function) {
  auto const device = inputs.front().device();
  auto const queue = current_queue(device);
  std::vector<at::Tensor> seen;
  for (auto const& input : inputs) seen.push_back(on_device(input) ? seen_by_kernels(input) : input);
  auto const outputs = std::make_shared<std::vector<at::Tensor>>();
  launch(queue, [=] { *outputs = function(seen); });
  fence(queue);
  std::vector<at::Tensor> results;
  for (auto const& output : *outputs) results.push_back(output.defined() ? brought_over(output, device) : output);
  return results;
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  c10::DeviceGuard const guard(device.value_or(c10::Device(device_type, c10::DeviceIndex(current_device))));
  return at::detail::empty_generic(sizes, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  c10::DeviceGuard const guard(device.value_or(c10::Device(device_type, c10::DeviceIndex(current_device))));
  return at::detail::empty_strided_generic(
      sizes, strides, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(type));
}

at::Tensor copy_from(at::Tensor const& from, at::Tensor const& to, bool non_blocking) {
  auto const device = on_device(to) ? to.device() : from.device();
  auto const queue = current_queue(device);
  if (from.numel() == 0) return to;
  if (!on_device(to)) {
    ++num_to_host;
    bytes_to_host += long(to.nbytes());
    if (!pinned.holds(to.const_data_ptr())) bytes_pageable += long(to.nbytes());
    launch(queue, [seen = seen_by_kernels(from), to]() mutable { to.copy_(seen); });
    if (!non_blocking) {
      ++num_waiting_copies;
      fence(queue);
    }
    return to;
  }
  if (!on_device(from)) {
    ++num_to_device;
    bytes_to_device += long(to.nbytes());
    // The caller may change what it gave, but for pinned memory, which is read when the copy runs.
    bool const is_pinned = pinned.holds(from.const_data_ptr());
    if (!non_blocking || !is_pinned) ++num_waiting_copies;
    if (!is_pinned) bytes_pageable += long(to.nbytes());
    auto const held = is_pinned && non_blocking ? from : from.clone();
    launch(queue, [seen = seen_by_kernels(to), held]() mutable { seen.copy_(held); });
    return to;
  }
  if (from.device() != to.device()) {
    auto const bridge = std::make_shared<at::Tensor>();
    auto const source = current_queue(from.device());
    launch(source, [=, seen = seen_by_kernels(from)] { *bridge = seen.clone(); });
    guarded().wait(queue, guarded().record(source));
    launch(queue, [=, seen = seen_by_kernels(to)]() mutable { seen.copy_(*bridge); });
    return to;
  }
  launch(queue, [to_seen = seen_by_kernels(to), seen = seen_by_kernels(from)]() mutable { to_seen.copy_(seen); });
  return to;
}

at::Tensor const& resize(at::Tensor const& self, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat>) {
  auto* const impl = self.unsafeGetTensorImpl();
  std::size_t needed = self.dtype().itemsize();
  for (auto const size : sizes) needed *= std::size_t(size);
  needed += std::size_t(self.storage_offset()) * self.dtype().itemsize();
  auto* const storage = self.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < needed) {
    c10::DeviceGuard const guard(self.device());
    auto larger = allocator.allocate(needed);
    if (storage->nbytes() > 0)
      guarded().copy(current_queue(self.device()), larger.get(), storage->data_ptr().get(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(larger));
    storage->set_nbytes(needed);
  }
  impl->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor copy_from_and_resize(at::Tensor const& from, at::Tensor const& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar(at::Tensor const& self) {
  return compute({self}, [](auto const& in) { return std::vector<at::Tensor>{in[0].clone()}; })[0].cpu().item();
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage storage, std::int64_t offset, c10::IntArrayRef sizes,
                        c10::IntArrayRef strides) {
  auto* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  if (strides.empty() && !sizes.empty())
    impl->set_sizes_contiguous(sizes);
  else
    impl->set_sizes_and_strides(sizes, strides, offset);
  return self;
}

at::Tensor convolution(at::Tensor const& input, at::Tensor const& weight, std::optional<at::Tensor> const& bias,
                       c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                       c10::IntArrayRef output_padding, std::int64_t groups) {
  return compute(
      {input, weight, bias.value_or(at::Tensor())}, [s = stride.vec(), p = padding.vec(), d = dilation.vec(),
                                                     o = output_padding.vec(), transposed, groups](auto const& in) {
        return std::vector{at::convolution(in[0], in[1], in[2].defined() ? std::optional(in[2]) : std::nullopt, s, p, d,
                                           transposed, o, groups)};
      })[0];
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(at::Tensor const& gradient, at::Tensor const& input,
                                                                    at::Tensor const& weight, c10::IntArrayRef stride,
                                                                    c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                                                    bool transposed, c10::IntArrayRef output_padding,
                                                                    std::int64_t groups, std::array<bool, 3> mask) {
  auto const results =
      compute({gradient, input, weight}, [s = stride.vec(), p = padding.vec(), d = dilation.vec(),
                                          o = output_padding.vec(), transposed, groups, mask](auto const& in) {
        std::vector<std::int64_t> const bias_sizes{in[0].size(1)};
        auto const [of_input, of_weight, of_bias] =
            at::convolution_backward(in[0], in[1], in[2], bias_sizes, s, p, d, transposed, o, groups, mask);
        return std::vector{of_input, of_weight, of_bias};
      });
  return {results[0], results[1], results[2]};
}

std::int64_t attention_of_plain_operators(at::Tensor const&, at::Tensor const&, at::Tensor const&,
                                          std::optional<at::Tensor> const&, double, bool, std::optional<double>, bool) {
  return 0;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_device>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("convolution_overrideable", TORCH_FN(convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  m.impl("_fused_sdp_choice", TORCH_FN(attention_of_plain_operators));
}

void register_device() {
  static bool const done = [] {
    (void)guarded();
    c10::register_privateuse1_backend("guarded");
    c10::SetAllocator(device_type, &allocator);
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
  }();
  (void)done;
}

}  // namespace

torch::Device guarded_torch_device(std::optional<int> index) {
  register_device();
  static int const wanted = [] {
    char const* const number = std::getenv("GRATICULE_TEST_DEVICE_NUMBER");
    return number ? std::atoi(number) : 0;
  }();
  return {device_type, c10::DeviceIndex(index.value_or(wanted))};
}

c10::Stream new_guarded_stream(std::optional<int> index) {
  return Streams::get().make(guarded_torch_device(index).index());
}

void set_captured(c10::Stream const& stream, bool captured) {
  auto& streams = Streams::get();
  std::lock_guard const lock(streams.mutex);
  std::pair const key{int(stream.device_index()), stream.id()};
  if (captured)
    streams.captured.insert(key);
  else
    streams.captured.erase(key);
}

torch::Device test_torch_device() {
  if (!gpu_is_wanted()) return guarded_torch_device();
  static int const index = [] {
    at::globalContext().lazyInitDevice(torch::kCUDA);
    at::globalContext().setAllowTF32CuDNN(false);
    // As mpi_main.cpp has told Kokkos.
    return std::atoi(std::getenv("KOKKOS_DEVICE_ID"));
  }();
  return {torch::kCUDA, c10::DeviceIndex(index)};
}

c10::Stream new_test_stream() {
  auto const device = test_torch_device();
  return c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
}

void expect_no_host_access() {
  if (gpu_is_wanted()) return;
  for (auto const& access : guarded().take_accesses()) ADD_FAILURE() << access;
}

StreamScope::StreamScope(c10::Stream const& stream)
    : before_(c10::impl::VirtualGuardImpl(stream.device_type()).exchangeStream(stream)) {}

StreamScope::~StreamScope() { (void)c10::impl::VirtualGuardImpl(before_.device_type()).exchangeStream(before_); }

void move_to(torch::Tensor& tensor, torch::Device const& device) {
  if (!tensor.defined() || tensor.device() == device) return;
  auto const moved = tensor.detach().to(device);
  if (device.is_privateuseone() || tensor.is_privateuseone())
    tensor.unsafeGetTensorImpl()->shallow_copy_from(moved.getIntrusivePtr());
  else
    tensor.set_data(moved);
}

void move_to(torch::nn::Module& module, torch::Device const& device) {
  for (auto& parameter : module.parameters()) move_to(parameter, device);
  for (auto& buffer : module.buffers()) move_to(buffer, device);
}

TensorCopies take_tensor_copies() {
  return {num_to_host.exchange(0), num_to_device.exchange(0), bytes_to_host.exchange(0), bytes_to_device.exchange(0),
          bytes_pageable.exchange(0)};
}

HostWaits take_host_waits() {
  return {num_synchronized.exchange(0), num_waiting_copies.exchange(0), num_waiting_operators.exchange(0)};
}

}  // namespace graticule::test
