// SPDX-License-Identifier: BSD-3-Clause
#include "linear_operator.hpp"

#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/nn_bridge/detail/linear_call.hpp>

#include "call/kept.hpp"
#include "call/recorded_calls.hpp"

#include <utility>

namespace graticule::nn::detail {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct OperatorCall {
  std::shared_ptr<LinearOperator const> op;
  Way way;
};

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static variable_list forward(AutogradContext* ctx, torch::Tensor const& x, torch::Tensor const& /*anchor*/,
                               OperatorCall const& call) {
    keep(ctx, call);
    auto const y = call.way == Way::forward ? call.op->apply(x) : call.op->apply_adjoint(x);
    return {y, make_token(y.options())};
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const call = kept<OperatorCall>(ctx);
    auto const other = call.way == Way::forward ? Way::adjoint : Way::forward;
    // Inside a backward that builds a graph, every rank gets a node again.
    auto const next_anchor = anchor(torch::GradMode::is_enabled(), grads[0].options());
    return {apply_linear(call.op, other, grads[0], next_anchor), {}, {}};
  }
};

/// The two functions of another library as an operator.
class FunctionPair : public LinearOperator {
 public:
  explicit FunctionPair(std::shared_ptr<LinearCall const> call) : call_(std::move(call)) {}

  [[nodiscard]] torch::Tensor apply(torch::Tensor const& x) const override { return call_->apply(x); }
  [[nodiscard]] torch::Tensor apply_adjoint(torch::Tensor const& y) const override { return call_->adjoint(y); }

 private:
  std::shared_ptr<LinearCall const> call_;
};

}  // namespace

torch::Tensor apply_linear(std::shared_ptr<LinearOperator const> const& op, Way way, torch::Tensor const& x,
                           torch::Tensor const& anchor) {
  OwnCode const own;
  auto y = LinearFunction::apply(resolved(x), anchor, OperatorCall{op, way})[0];
  RecordedCalls::record_derivative(y);
  return y;
}

torch::Tensor CallTies::apply(std::shared_ptr<LinearOperator const> const& op, Way way, torch::Tensor const& x) const {
  if (!op) return x;
  auto y = apply_linear(op, way, x, anchor);
  layer.record(y);
  return y;
}

torch::Tensor apply_linear_call(std::shared_ptr<LinearCall const> const& call, torch::Tensor const& x,
                                torch::Tensor const& anchor) {
  return apply_linear(std::make_shared<FunctionPair const>(call), Way::forward, x, anchor);
}

}  // namespace graticule::nn::detail
