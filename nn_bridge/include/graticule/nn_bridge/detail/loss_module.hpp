// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/loss/options.hpp>

#include <torch/torch.h>

#include <memory>
#include <utility>

namespace graticule::nn::detail {

struct LossFunction;
struct LossSetUp;

/// The life cycle of a loss: agreement, weights and sums.
class LossLayer : public LayerState<LossSetUp> {
 public:
  LossLayer(std::shared_ptr<LossFunction const> function, LossOptions options, Domain const& domain);
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target, torch::Tensor const& mask);

 private:
  std::shared_ptr<LossFunction const> function_;
  LossOptions options_;
};

/// Common part of the modules of `losses.hpp`.
template <class Derived>
class LossModule : public StatefulModule<Derived, LossLayer> {
 public:
  /// Collective; shapes, weights and errors are those of `losses.hpp`.
  torch::Tensor forward(torch::Tensor const& prediction, torch::Tensor const& target, torch::Tensor const& mask = {}) {
    return this->state().forward(prediction, target, mask);
  }

 protected:
  LossModule(std::shared_ptr<LossFunction const> function, LossOptions options, Domain const& domain)
      : StatefulModule<Derived, LossLayer>(
            domain, [function = std::move(function), options = std::move(options)](Domain const& of) {
              return std::make_shared<LossLayer>(function, options, of);
            }) {}
};

}  // namespace graticule::nn::detail
