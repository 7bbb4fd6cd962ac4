// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/forward_hooks.hpp>
#include <graticule/nn_bridge/detail/hooked.hpp>

#include <c10/util/FunctionRef.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::nn {

namespace detail {

/// A sharded forward and the layer that it calls. The functions take the serial layer itself, because its parameters
/// may be replaced, loaded or moved to another device at any time.
struct ShardedForward {
  std::function<torch::Tensor(torch::nn::Module& serial, torch::Tensor const& x)> call;
  /// None where the layer has no `forward_like`.
  std::function<torch::Tensor(torch::nn::Module& serial, torch::Tensor const& x, torch::Tensor const& like)> call_like;
  std::shared_ptr<torch::nn::Module> layer;
};

/// A layer whose forward `shard` can replace: the base of each `LayerImpl`, which has what does not depend on its type.
class Shardable : public Hooked, public Communicating {
 public:
  void reset_structure() override;

  [[nodiscard]] bool is_sharded() const;

  /// For `shard`. @param make creates the forward: once for this layer, and once per clone
  void set_sharded(std::function<ShardedForward()> make);

 protected:
  /// The sharded forward where there is one, else `serial`; with the hooks around it.
  torch::Tensor call(torch::Tensor const& x, c10::function_ref<torch::Tensor(torch::Tensor const&)> serial);
  torch::Tensor call_like(torch::Tensor const& x, torch::Tensor const& like,
                          c10::function_ref<torch::Tensor(torch::Tensor const&, torch::Tensor const&)> serial);
  /// Takes the sharded forward off `copy`, a copy of this layer without its type.
  void make_plain(torch::nn::Module& copy) const;
  /// Makes this layer, a clone of `other`, sharded as that is.
  void shard_like(Shardable const& other);

 private:
  [[nodiscard]] virtual torch::nn::Module& module() noexcept = 0;
  [[nodiscard]] int num_set_ups() const noexcept override;
  void make_sharded();

  ShardedForward sharded_;
};

/// The last `num_axes` sizes of `x`, or all that it has.
[[nodiscard]] std::vector<std::int64_t> last_sizes(torch::Tensor const& x, std::int64_t num_axes);

/// The serial forward with the spatial sizes of `like`, for layers whose output may have several sizes.
template <std::size_t D, class Serial>
[[nodiscard]] torch::Tensor serial_like(torch::nn::ConvTransposeNdImpl<D, Serial>& layer, torch::Tensor const& x,
                                        torch::Tensor const& like) {
  auto const sizes = last_sizes(like, std::int64_t(D));
  return static_cast<Serial&>(layer).forward(x, at::IntArrayRef(sizes));
}
[[nodiscard]] torch::Tensor serial_like(torch::nn::UpsampleImpl& layer, torch::Tensor const& x,
                                        torch::Tensor const& like);

template <class Serial>
concept TakesLike = requires(Serial& layer, torch::Tensor const& x) {
  serial_like(layer, x, x);
};

}  // namespace detail

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
