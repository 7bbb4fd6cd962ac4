// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/forward_hooks.hpp>
#include <graticule/nn_bridge/detail/serial_like.hpp>
#include <graticule/nn_bridge/detail/shardable.hpp>

#include <torch/torch.h>

#include <memory>
#include <optional>

namespace graticule::nn {

/// A LibTorch layer whose forward `shard` can replace by a sharded one.
///
/// In every other respect it is the serial layer: options, parameters, buffers, names and files are those of `Serial`,
/// and `as<Serial>()` finds it. Until `shard` is called its forward is the serial one; `is_sharded()` reports which one
/// it is. `reset_structure()` prepares it for new cuts, and `add_hooks` adds `ForwardHooks`. Clones of a sharded layer
/// are sharded.
template <class Serial>
class LayerImpl : public Serial, public detail::Shardable {
 public:
  using Serial::Serial;
  /// Shares the parameters and buffers of `serial`; nothing is copied.
  explicit LayerImpl(Serial const& serial) : Serial(serial) {}

  torch::Tensor forward(torch::Tensor const& x) {
    return call(x, [this](torch::Tensor const& input) -> torch::Tensor { return Serial::forward(input); });
  }

  /// The output with the global sizes and the cuts of `like` along rows and columns: the way up to a skip connection.
  /// For transposed convolutions, with the output padding that follows, and for `Upsample`, whatever size it was given.
  torch::Tensor forward_like(torch::Tensor const& x, torch::Tensor const& like) requires detail::TakesLike<Serial> {
    return call_like(x, like, [this](torch::Tensor const& input, torch::Tensor const& other) {
      return detail::serial_like(static_cast<Serial&>(*this), input, other);
    });
  }

  std::shared_ptr<torch::nn::Module> clone(std::optional<torch::Device> const& device = {}) const override {
    Serial plain(*this);
    make_plain(plain);
    auto copy = std::make_shared<LayerImpl>(dynamic_cast<Serial const&>(*plain.clone(device)));
    copy->shard_like(*this);
    return copy;
  }

 private:
  torch::nn::Module& module() noexcept override { return *this; }
};

/// A member that `shard` can convert: `Layer<torch::nn::Conv2d> conv{nullptr}` instead of `torch::nn::Conv2d
/// conv{nullptr}`. It is constructed, registered and called in the same way.
template <class Holder>
class Layer : public torch::nn::ModuleHolder<LayerImpl<typename Holder::ContainedType>> {
 public:
  using torch::nn::ModuleHolder<LayerImpl<typename Holder::ContainedType>>::ModuleHolder;
};

}  // namespace graticule::nn
