// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/detail/hooked.hpp>

#include <c10/util/FunctionRef.h>
#include <torch/torch.h>

#include <functional>
#include <memory>

namespace graticule::nn::detail {

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

}  // namespace graticule::nn::detail
