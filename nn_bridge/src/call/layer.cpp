// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/layer.hpp>

#include "contiguous_cotangent.hpp"

#include <algorithm>

namespace graticule::nn::detail {

namespace {

/// Creates the sharded forwards of one layer. It is a child module without parameters, because a model's `clone` copies
/// nothing of a layer but its children and parameters.
struct ForwardMaker : torch::nn::Module {
  explicit ForwardMaker(std::function<ShardedForward()> function) : make(std::move(function)) {}
  std::shared_ptr<Module> clone(std::optional<torch::Device> const& /*device*/ = {}) const override {
    return std::make_shared<ForwardMaker>(make);
  }
  bool is_serializable() const override { return false; }

  std::function<ShardedForward()> make;
};

constexpr char const* maker_name = "sharded_forward";

std::shared_ptr<ForwardMaker> find_maker(torch::nn::Module const& layer) {
  for (auto const& child : layer.children())
    if (auto maker = std::dynamic_pointer_cast<ForwardMaker>(child)) return maker;
  return nullptr;
}

template <class... Types>
bool is_one_of(torch::nn::Module const& module) {
  return (dynamic_cast<Types const*>(&module) || ...);
}

/// The serial forward, see `with_contiguous_cotangent`.
torch::Tensor serial_result(torch::nn::Module const& module, torch::Tensor const& x,
                            c10::function_ref<torch::Tensor(torch::Tensor const&)> serial) {
  using namespace torch::nn;
  bool const affected =
      torch::GradMode::is_enabled() && is_one_of<BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl, InstanceNorm1dImpl,
                                                 InstanceNorm2dImpl, InstanceNorm3dImpl>(module);
  return affected ? with_contiguous_cotangent(serial(in_plain_memory(x))) : serial(x);
}

torch::nn::Module const& module_of(Shardable const& layer) { return dynamic_cast<torch::nn::Module const&>(layer); }

}  // namespace

void Shardable::reset_structure() {
  if (sharded_.layer) nn::reset_structure(*sharded_.layer);
}

bool Shardable::is_sharded() const { return find_maker(module_of(*this)) != nullptr; }

void Shardable::set_sharded(std::function<ShardedForward()> make) {
  if (is_sharded()) module().unregister_module(maker_name);
  sharded_ = make();
  module().register_module(maker_name, std::make_shared<ForwardMaker>(std::move(make)));
}

torch::Tensor Shardable::call(torch::Tensor const& x, c10::function_ref<torch::Tensor(torch::Tensor const&)> serial) {
  make_sharded();
  return call_hooked<torch::Tensor>(
      module(),
      [&](torch::Tensor const& input) {
        return sharded_.call ? sharded_.call(module(), input) : serial_result(module(), input, serial);
      },
      x);
}

torch::Tensor Shardable::call_like(
    torch::Tensor const& x, torch::Tensor const& like,
    c10::function_ref<torch::Tensor(torch::Tensor const&, torch::Tensor const&)> serial) {
  make_sharded();
  return call_hooked<torch::Tensor>(
      module(),
      [&](torch::Tensor const& input, torch::Tensor const& other) {
        return sharded_.call_like ? sharded_.call_like(module(), input, other) : serial(input, other);
      },
      x, like);
}

void Shardable::make_plain(torch::nn::Module& copy) const {
  if (is_sharded()) copy.unregister_module(maker_name);
}

void Shardable::shard_like(Shardable const& other) {
  if (auto const maker = find_maker(module_of(other))) set_sharded(maker->make);
}

std::vector<std::int64_t> last_sizes(torch::Tensor const& x, std::int64_t num_axes) {
  return {x.sizes().end() - std::min(num_axes, x.dim()), x.sizes().end()};
}

int Shardable::num_set_ups() const noexcept {
  auto const* const layer = dynamic_cast<Communicating const*>(sharded_.layer.get());
  return layer ? detail::num_set_ups(*layer) : 0;
}

void Shardable::make_sharded() {
  if (sharded_.call) return;
  if (auto const maker = find_maker(module())) sharded_ = maker->make();
}

}  // namespace graticule::nn::detail
