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
#include <tuple>
#include <utility>
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

[[nodiscard]] inline Tensors listed(torch::Tensor const& y) { return {y}; }
[[nodiscard]] inline Tensors listed(std::tuple<torch::Tensor, torch::Tensor> const& y) {
  return {std::get<0>(y), std::get<1>(y)};
}

/// Each method that the layer has, of these names and numbers of tensors.
template <bool has_serial_state, class Sharded>
Layer made(std::shared_ptr<Sharded> const& layer) {
  Layer result{layer, {}, {}};
  auto const add = [&]<std::size_t... i>(char const* name, std::index_sequence<i...> /*inputs*/, auto call) {
    if constexpr (requires(Sharded & s, torch::Tensor const& x) { call(s, (void(i), x)...); })
      result.methods[name] = [layer, call](ModuleState const& state, Tensors const& in) {
        if constexpr (has_serial_state)
          take_state(*layer, state);
        else if (layer->is_training() != state.training)
          layer->train(state.training);
        (void)input(in, 0, sizeof...(i));
        return listed(call(*layer, in[i]...));
      };
  };
  constexpr std::make_index_sequence<1> one;
  constexpr std::make_index_sequence<2> two;
  constexpr std::make_index_sequence<3> three;
  auto const forward = [](auto& s, auto const&... x) -> decltype(s.forward(x...)) { return s.forward(x...); };
  auto const like = [](auto& s, auto const&... x) -> decltype(s.forward_like(x...)) { return s.forward_like(x...); };
  add("forward", two, forward);
  add("forward", one, forward);
  add("forward_masked", three, forward);
  add("forward_like", two, like);
  add("forward_like", three, like);
  add("forward_with_indices", one,
      [](auto& s, auto const& x) -> decltype(s.forward_with_indices(x)) { return s.forward_with_indices(x); });
  add("inverse", one, [](auto& s, auto const& x) -> decltype(s.inverse(x)) { return s.inverse(x); });
  add("back", one, [](auto& s, auto const& x) -> decltype(s.back(x)) { return s.back(x); });
  add("to_means", two, [](auto& s, auto const&... x) -> decltype(s.to_means(x...)) { return s.to_means(x...); });
  add("room_for", one, [](auto& s, auto const& x) -> decltype(s.room_for(x)) { return s.room_for(x); });
  add("owned", one, [](auto& s, auto const& x) -> decltype(s.owned(x)) { return s.owned(x); });
  return result;
}

}  // namespace graticule::python
