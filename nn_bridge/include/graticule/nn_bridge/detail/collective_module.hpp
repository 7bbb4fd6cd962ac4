// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/detail/linear_call.hpp>
#include <graticule/partition/layout.hpp>

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace graticule::nn::detail {

/// Definition of a collective's module: its name, the cut axes of its input, and its map for a layout.
struct CollectiveOptions {
  std::string name;
  Sharding sharding;
  std::function<void(torch::Tensor const&)> check;
  std::function<std::shared_ptr<LinearCall const>(torch::Tensor const&, Layout const&)> make;
};

/// Agreement, set-ups and forward of such a module.
class CollectiveLayer : public LayerState<LinearCall> {
 public:
  CollectiveLayer(CollectiveOptions options, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& x);

 private:
  CollectiveOptions options_;
};

/// Common part of the modules of `collectives.hpp`.
template <class Derived>
class CollectiveModule : public StatefulModule<Derived, CollectiveLayer> {
 public:
  /// Collective; shapes and gradient are those of the module in `collectives.hpp`.
  torch::Tensor forward(torch::Tensor const& x) { return this->state().forward(x); }

 protected:
  CollectiveModule(CollectiveOptions options, Domain const& domain)
      : StatefulModule<Derived, CollectiveLayer>(domain, [options = std::move(options)](Domain const& of) {
          return std::make_shared<CollectiveLayer>(options, of);
        }) {}
};

}  // namespace graticule::nn::detail
