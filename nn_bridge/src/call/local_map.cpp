// SPDX-License-Identifier: BSD-3-Clause
#include "local_map.hpp"

#include "kept.hpp"

#include <utility>

namespace graticule::nn::detail {

namespace {

using torch::autograd::AutogradContext;
using Tensors = LocalMap::Tensors;
using LocalMapPointer = std::shared_ptr<LocalMap const>;

/// Gradients of all inputs; differentiable in grad mode, in which the inputs belong to the derivative of this one.
Tensors gradients(LocalMap const& map, Tensors const& inputs, Tensors const& cotangents) {
  bool const with_graph = torch::GradMode::is_enabled();
  torch::AutoGradMode const inner_graph(true);
  Tensors leaves;
  for (auto const& input : inputs)
    leaves.push_back(with_graph ? input.view_as(input) : input.detach().requires_grad_());
  auto const outputs = map.apply(leaves);
  Tensors roots;
  Tensors seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(cotangents[i]);
  }
  Tensors result(inputs.size());
  if (!roots.empty()) result = torch::autograd::grad(roots, leaves, seeds, with_graph, with_graph, true);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!result[i].defined()) result[i] = torch::zeros_like(inputs[i]);
  return result;
}

LocalMapPointer derivative(LocalMapPointer const& map, std::size_t num_inputs) {
  auto result = std::make_shared<LocalMap>();
  result->apply = [=](Tensors const& all) {
    auto const middle = all.begin() + std::ptrdiff_t(num_inputs);
    return gradients(*map, {all.begin(), middle}, {middle, all.end()});
  };
  return result;
}

struct LocalFunction : torch::autograd::Function<LocalFunction> {
  static Tensors forward(AutogradContext* ctx, at::TensorList inputs, LocalMapPointer const& map) {
    auto const given = inputs.vec();
    ctx->save_for_backward(given);
    keep(ctx, map);
    auto outputs = map->apply(given);
    // No other reference to these results exists, so a view of them need not be tracked.
    at::AutoDispatchBelowADInplaceOrView const guard;
    for (auto& output : outputs) output = at::alias(output.detach());
    return outputs;
  }

  static Tensors backward(AutogradContext* ctx, Tensors const& cotangents) {
    auto const& map = kept<LocalMapPointer>(ctx);
    auto const inputs = ctx->get_saved_variables();
    Tensors result;
    if (torch::GradMode::is_enabled()) {
      auto all = inputs;
      all.insert(all.end(), cotangents.begin(), cotangents.end());
      result = apply_local(derivative(map, inputs.size()), all);
    } else if (map->backward) {
      std::vector<bool> needed;
      for (std::size_t i = 0; i < inputs.size(); ++i) needed.push_back(ctx->needs_input_grad(i));
      result = map->backward(inputs, cotangents, needed);
    } else {
      result = gradients(*map, inputs, cotangents);
    }
    result.emplace_back();
    return result;
  }
};

}  // namespace

Tensors apply_local(LocalMapPointer const& map, Tensors const& inputs) {
  return LocalFunction::apply(at::TensorList(inputs), map);
}

}  // namespace graticule::nn::detail
