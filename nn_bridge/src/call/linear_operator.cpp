// SPDX-License-Identifier: BSD-3-Clause
#include "linear_operator.hpp"

#include <graticule/nn_bridge/detail/agreement.hpp>

#include "kept.hpp"
#include "recorded_calls.hpp"
#include "resolved.hpp"

namespace graticule::nn::detail {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LinearCall {
  std::shared_ptr<LinearOperator const> op;
  Way way;
};

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static variable_list forward(AutogradContext* ctx, torch::Tensor const& x, torch::Tensor const& /*anchor*/,
                               LinearCall const& call) {
    keep(ctx, call);
    auto const y = call.way == Way::forward ? call.op->apply(x) : call.op->apply_adjoint(x);
    return {y, make_token(y.options())};
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const call = kept<LinearCall>(ctx);
    auto const other = call.way == Way::forward ? Way::adjoint : Way::forward;
    // Inside a backward that builds a graph, every rank gets a node again.
    auto const next_anchor = anchor(torch::GradMode::is_enabled(), grads[0].options());
    return {apply_linear(call.op, other, grads[0], next_anchor), {}, {}};
  }
};

}  // namespace

torch::Tensor apply_linear(std::shared_ptr<LinearOperator const> const& op, Way way, torch::Tensor const& x,
                           torch::Tensor const& anchor) {
  auto y = LinearFunction::apply(resolved(x), anchor, LinearCall{op, way})[0];
  RecordedCalls::record_derivative(y);
  return y;
}

}  // namespace graticule::nn::detail
