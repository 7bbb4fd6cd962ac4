// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/model/rollout.hpp>
#include <graticule/partition/error.hpp>

#include "call/kept.hpp"
#include "call/recorded_calls.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace graticule::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Segment = std::function<Tensors(Tensors const&)>;

struct SegmentCall {
  SegmentCall(Domain held, Segment function, std::size_t count)
      : domain(std::move(held)),
        segment(std::move(function)),
        num_inputs(count),
        first_draw(domain.recorded_calls().num_draws) {}

  /// Runs the segment with the masks of its first run.
  [[nodiscard]] Tensors run_again(Tensors const& inputs) const {
    auto& num_draws = domain.recorded_calls().num_draws;
    auto const later = std::exchange(num_draws, first_draw);
    try {
      auto outputs = segment(inputs);
      num_draws = later;
      return outputs;
    } catch (...) {
      num_draws = later;
      throw;
    }
  }

  Domain domain;
  Segment segment;
  std::size_t num_inputs;
  std::int64_t first_draw;
};

using SegmentCallPointer = std::shared_ptr<SegmentCall const>;

struct CheckpointFunction : torch::autograd::Function<CheckpointFunction> {
  /// @param tensors the inputs, then an anchor
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, SegmentCallPointer const& call) {
    detail::keep(ctx, call);
    ctx->save_for_backward(tensors.vec());
    Tensors const inputs(tensors.begin(), tensors.end() - 1);
    auto outputs = call->segment(inputs);
    if (outputs.empty()) throw Error("Unsupported", "the segment of a checkpoint returned no output");
    variable_list result;
    for (auto& output : outputs) result.push_back(output.detach());
    // The token comes second, where `RecordedCalls` looks for it.
    result.insert(result.begin() + 1, detail::make_token(result.front().options()));
    return result;
  }

  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const kept = detail::kept<SegmentCallPointer>(ctx);
    auto const& call = *kept;
    auto const saved = ctx->get_saved_variables();
    if (torch::GradMode::is_enabled())
      throw Error("Unsupported", "the backward of a checkpoint cannot be differentiated");
    torch::AutoGradMode const with_graph(true);
    Tensors inputs;
    for (std::size_t i = 0; i < call.num_inputs; ++i)
      inputs.push_back(saved[i].detach().requires_grad_(saved[i].requires_grad()));
    auto const outputs = call.run_again(inputs);
    variable_list roots;
    variable_list root_grads;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      root_grads.push_back(grads[i == 0 ? 0 : i + 1]);
    }
    for (auto const& token : call.domain.recorded_calls().unreached(call.domain.comm(), roots)) {
      roots.push_back(token);
      root_grads.push_back(torch::zeros_like(token));
    }
    if (!roots.empty()) torch::autograd::backward(roots, root_grads);
    variable_list result;
    for (auto const& input : inputs) result.push_back(input.grad());
    result.resize(call.num_inputs + 2);
    return result;
  }
};

}  // namespace

Tensors checkpoint(Domain const& domain, Segment const& segment, Tensors const& inputs) {
  auto& calls = domain.recorded_calls();
  auto const number = calls.next_call();
  if (!torch::GradMode::is_enabled()) return segment(inputs);
  variable_list tensors(inputs.begin(), inputs.end());
  auto const options = inputs.empty() ? torch::TensorOptions() : inputs.front().options();
  // Parameters of the segment may require a gradient where no input does.
  tensors.push_back(detail::anchor(true, options));
  auto outputs =
      CheckpointFunction::apply(at::TensorList(tensors), std::make_shared<SegmentCall>(domain, segment, inputs.size()));
  calls.record(outputs.front(), {number, 0}, "a checkpoint");
  outputs.erase(outputs.begin() + 1);
  return outputs;
}

torch::Tensor rollout(Domain const& domain, torch::Tensor const& state, RolloutOptions const& options,
                      std::function<torch::Tensor(torch::Tensor const&, std::int64_t)> const& step,
                      std::function<torch::Tensor(torch::Tensor const&, std::int64_t)> const& on_state) {
  if (options.num_steps < 1 || options.checkpoint_steps < 0 || options.gradient_steps < 0)
    throw Error("BadOption",
                "a rollout needs at least 1 step, and 0 or more steps of checkpoints and of gradients, got " +
                    std::to_string(options.num_steps) + ", " + std::to_string(options.checkpoint_steps) + " and " +
                    std::to_string(options.gradient_steps));
  auto current = state;
  torch::Tensor total;
  auto const take = [&](torch::Tensor const& part) { total = total.defined() ? total + part : part; };
  auto const chunk = std::max<std::int64_t>(1, options.checkpoint_steps);
  for (std::int64_t first = 0; first < options.num_steps;) {
    auto last = std::min(first + chunk, options.num_steps);
    if (options.gradient_steps > 0) {
      if (first > 0 && first % options.gradient_steps == 0) current = current.detach();
      last = std::min(last, (first / options.gradient_steps + 1) * options.gradient_steps);
    }
    auto const segment = [step, first, last](Tensors const& inputs) {
      Tensors states{inputs.front()};
      for (auto i = first; i < last; ++i) states.push_back(step(states.back(), i));
      states.erase(states.begin());
      return states;
    };
    auto const states = options.checkpoint_steps > 0 ? checkpoint(domain, segment, {current}) : segment({current});
    for (auto i = first; i < last; ++i) take(on_state(states[std::size_t(i - first)], i));
    current = states.back();
    first = last;
  }
  return total;
}

}  // namespace graticule::nn
