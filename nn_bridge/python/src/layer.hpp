// SPDX-License-Identifier: BSD-3-Clause
// One C++ layer behind a Python module.
#pragma once

#include <graticule/nn_bridge/call/field_cuts.hpp>
#include <graticule/nn_bridge/detail/shard_layers.hpp>

#include "reader.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::python {

/// What a torch.nn module holds, the same tensors in each call; undefined where it has none.
struct ModuleState {
  torch::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  bool training = true;
};

using Tensors = std::vector<torch::Tensor>;
/// A method: tensors in, tensors out. `state` is read by layers whose parameters belong to a torch.nn module.
using Method = std::function<Tensors(ModuleState const& state, Tensors const& inputs)>;

struct Layer {
  std::shared_ptr<torch::nn::Module> module;
  std::map<std::string, Method> methods;
  /// Cuts that a layer has made, by a name and an axis; none for most.
  std::function<nn::AxisPart(std::string const& name, std::int64_t axis)> part;
};

using Maker = std::function<Layer(Reader const&)>;
using Makers = std::map<std::string, Maker>;

/// Layers of torch.nn, whose parameters are arguments of each call.
[[nodiscard]] Makers const& serial_makers();
/// Layers with parameters of their own, and without any.
[[nodiscard]] Makers const& native_makers();

/// @throws `BadArgument` @return the only input, or the n-th
[[nodiscard]] inline torch::Tensor const& input(Tensors const& inputs, std::size_t n, std::size_t count) {
  if (inputs.size() != count)
    throw Error("BadArgument",
                std::to_string(inputs.size()) + " tensors where the layer takes " + std::to_string(count));
  return inputs[n];
}

template <class Mode>
[[nodiscard]] Mode padding_mode(Reader const& r) {
  return r.one_of<Mode>("padding_mode",
                        {{"zeros", torch::kZeros},
                         {"reflect", torch::kReflect},
                         {"replicate", torch::kReplicate},
                         {"circular", torch::kCircular}},
                        torch::kZeros);
}

/// Those of convolutions, without their padding.
template <std::size_t D, class Options>
[[nodiscard]] Options windows(Reader const& r) {
  auto options = Options(r.integer("in_channels"), r.integer("out_channels"), r.array<D>("kernel_size"))
                     .stride(r.array<D>("stride"))
                     .dilation(r.array<D>("dilation"))
                     .groups(r.integer("groups"))
                     .bias(r.truth("bias"));
  options.padding_mode(padding_mode<std::decay_t<decltype(options.padding_mode())>>(r));
  return options;
}

/// Gives a layer the state of the torch.nn module that it stands for.
template <class Sharded>
void take_state(Sharded& own, ModuleState const& state) {
  if constexpr (requires { own.weight; }) own.weight = state.weight;
  if constexpr (requires { own.bias; }) own.bias = state.bias;
  if constexpr (nn::detail::HasRunningStatistics<Sharded>) {
    own.running_mean = state.running_mean;
    own.running_var = state.running_var;
    own.num_batches_tracked = state.num_batches_tracked;
  }
  if (own.is_training() != state.training) own.train(state.training);
}

/// `forward(x)`, and `forward_like`, `forward_with_indices`, `inverse`, `back` where the layer has them.
template <bool has_serial_state, class Sharded>
Layer made(std::shared_ptr<Sharded> const& layer) {
  auto const prepared = [layer](ModuleState const& state) -> Sharded& {
    if constexpr (has_serial_state)
      take_state(*layer, state);
    else if (layer->is_training() != state.training)
      layer->train(state.training);
    return *layer;
  };
  Layer result{layer, {}, {}};
  auto& methods = result.methods;
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.forward(x); })
    methods["forward"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).forward(input(in, 0, 1))};
    };
  else if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.forward(x, x); })
    methods["forward"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).forward(input(in, 0, 2), in[1])};
    };
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.forward(x, x, x); })
    methods["forward_masked"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).forward(input(in, 0, 3), in[1], in[2])};
    };
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.forward_like(x, x); })
    methods["forward_like"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).forward_like(input(in, 0, 2), in[1])};
    };
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.forward_like(x, x, x); })
    methods["forward_like"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).forward_like(input(in, 0, 3), in[1], in[2])};
    };
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.forward_with_indices(x); })
    methods["forward_with_indices"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      auto [values, indices] = prepared(state).forward_with_indices(input(in, 0, 1));
      return {values, indices};
    };
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.inverse(x); })
    methods["inverse"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).inverse(input(in, 0, 1))};
    };
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.back(x); })
    methods["back"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).back(input(in, 0, 1))};
    };
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.to_means(x, x); })
    methods["to_means"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).to_means(input(in, 0, 2), in[1])};
    };
  if constexpr (requires(Sharded & s, torch::Tensor const& x) { s.room_for(x); }) {
    methods["room_for"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).room_for(input(in, 0, 1))};
    };
    methods["owned"] = [prepared](ModuleState const& state, Tensors const& in) -> Tensors {
      return {prepared(state).owned(input(in, 0, 1))};
    };
  }
  return result;
}

}  // namespace graticule::python
