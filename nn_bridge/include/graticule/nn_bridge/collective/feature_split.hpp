// SPDX-License-Identifier: BSD-3-Clause
// How layers with features distributed over ranks (tensor parallelism) divide their work.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/partition/cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace graticule::nn {

/// The features of a layer that are cut along its feature axis. The others are whole on all ranks that share the cells.
enum class FeatureSplit : std::uint8_t {
  input,   ///< row-parallel: a local product, and a sum over the ranks
  output,  ///< column-parallel: a local product; its cotangents are summed over the ranks
  both,    ///< inputs are gathered, or outputs reduced and scattered, whichever has fewer features
};

/// How a layer with split features cuts its outputs and how its uncut side is used.
struct SplitOptions {
  FeatureSplit split = FeatureSplit::both;
  /// How the uncut side is used: the operations before `output`, or those after `input`. `replicated`: all ranks
  /// compute the same and hold the whole cotangent. Parameters of replicated operations get whole gradients, not
  /// partial sums: give them the rule `Reduction::mean` (`GradientSync::set_rules`).
  Consumer whole = Consumer::replicated;
  /// Cuts of the outputs for `both` and `output`; default: balanced.
  std::optional<Cuts> output_cuts = {};
};

namespace detail {

struct SplitSetUp;

/// Common part of layers with split features. Weights are [outputs, inputs, ...] and whole on each rank.
class SplitLayer : public LayerState<SplitSetUp> {
 public:
  struct Features {
    std::int64_t axis;  ///< counted from the last one
    std::int64_t inputs;
    std::int64_t outputs;
  };
  /// The layer restricted to some inputs and outputs, given the slices of weight and bias (which may be undefined).
  using Local = std::function<torch::Tensor(torch::Tensor const&, torch::Tensor const&, torch::Tensor const&)>;

  /// Collective. @throws `BadOption`, `BadCuts`
  SplitLayer(std::string const& name, Features features, SplitOptions options, Domain const& domain,
             Sharding const& sharding);

  torch::Tensor forward(torch::Tensor const& x, std::function<void()> const& check, torch::Tensor const& weight,
                        torch::Tensor const& bias, Local const& local);

 private:
  Features features_;
  SplitOptions options_;
  std::optional<Comm> team_;
};

}  // namespace detail

}  // namespace graticule::nn
