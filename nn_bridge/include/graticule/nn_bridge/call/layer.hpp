// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/detail/serial_like.hpp>

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace graticule::nn {

namespace detail {

/// Creates the sharded forwards of one layer. It is a child module without parameters, because a model's `clone` copies
/// nothing of a layer but its children and parameters.
template <class Forward>
struct ForwardMaker : torch::nn::Module {
  explicit ForwardMaker(std::function<Forward()> function) : make(std::move(function)) {}
  std::shared_ptr<Module> clone(std::optional<torch::Device> const& /*device*/ = {}) const override {
    return std::make_shared<ForwardMaker>(make);
  }
  bool is_serializable() const override { return false; }

  std::function<Forward()> make;
};

}  // namespace detail

/// A LibTorch layer whose forward `shard` can replace by a sharded one.
///
/// In every other respect it is the serial layer: options, parameters, buffers, names and files are those of `Serial`,
/// and `as<Serial>()` finds it. Until `shard` is called its forward is the serial one. Clones of a sharded layer are
/// sharded.
template <class Serial>
class LayerImpl : public Serial, public Hooked, public Communicating {
 public:
  /// Takes the layer itself, because its parameters may be replaced, loaded or moved to another device at any time.
  using Call = std::function<torch::Tensor(Serial&, torch::Tensor const&)>;
  using CallLike = std::function<torch::Tensor(Serial&, torch::Tensor const&, torch::Tensor const&)>;
  /// A forward and the layer that it calls.
  struct Sharded {
    Call call;
    CallLike call_like;  ///< none where the layer has no `forward_like`
    std::shared_ptr<torch::nn::Module> layer;
  };

  using Serial::Serial;
  /// Shares the parameters and buffers of `serial`; nothing is copied.
  explicit LayerImpl(Serial const& serial) : Serial(serial) {}

  torch::Tensor forward(torch::Tensor const& x) {
    make_sharded();
    return this->template call_hooked<torch::Tensor>(
        *this,
        [this](torch::Tensor const& input) {
          return sharded_.call ? sharded_.call(*this, input) : Serial::forward(input);
        },
        x);
  }

  /// The output with the global sizes and the cuts of `like` along rows and columns: the way up to a skip connection.
  /// For transposed convolutions, with the output padding that follows, and for `Upsample`, whatever size it was given.
  torch::Tensor forward_like(torch::Tensor const& x, torch::Tensor const& like) requires detail::TakesLike<Serial> {
    make_sharded();
    return this->template call_hooked<torch::Tensor>(
        *this,
        [this](torch::Tensor const& input, torch::Tensor const& other) {
          return sharded_.call_like ? sharded_.call_like(*this, input, other)
                                    : detail::serial_like(static_cast<Serial&>(*this), input, other);
        },
        x, like);
  }

  void reset_structure() override {
    if (sharded_.layer) nn::reset_structure(*sharded_.layer);
  }

  [[nodiscard]] bool is_sharded() const { return find_maker() != nullptr; }

  /// For `shard`. @param make creates the forward: once for this layer, and once per clone
  void set_sharded(std::function<Sharded()> make) {
    if (is_sharded()) this->unregister_module(maker_name);
    sharded_ = make();
    this->register_module(maker_name, std::make_shared<Maker>(std::move(make)));
  }

  std::shared_ptr<torch::nn::Module> clone(std::optional<torch::Device> const& device = {}) const override {
    auto const maker = find_maker();
    Serial plain(*this);
    if (maker) plain.unregister_module(maker_name);
    auto copy = std::make_shared<LayerImpl>(dynamic_cast<Serial const&>(*plain.clone(device)));
    if (maker) copy->set_sharded(maker->make);
    return copy;
  }

 private:
  using Maker = detail::ForwardMaker<Sharded>;
  static constexpr char const* maker_name = "sharded_forward";

  void make_sharded() {
    if (!sharded_.call)
      if (auto const maker = find_maker()) sharded_ = maker->make();
  }

  std::shared_ptr<Maker> find_maker() const {
    for (auto const& child : this->children())
      if (auto const maker = std::dynamic_pointer_cast<Maker>(child)) return maker;
    return nullptr;
  }

  [[nodiscard]] int num_set_ups() const noexcept override {
    auto const* const layer = dynamic_cast<Communicating const*>(sharded_.layer.get());
    return layer ? detail::num_set_ups(*layer) : 0;
  }

  Sharded sharded_;
};

/// A member that `shard` can convert: `Layer<torch::nn::Conv2d> conv{nullptr}` instead of `torch::nn::Conv2d
/// conv{nullptr}`. It is constructed, registered and called in the same way.
template <class Holder>
class Layer : public torch::nn::ModuleHolder<LayerImpl<typename Holder::ContainedType>> {
 public:
  using torch::nn::ModuleHolder<LayerImpl<typename Holder::ContainedType>>::ModuleHolder;
};

}  // namespace graticule::nn
