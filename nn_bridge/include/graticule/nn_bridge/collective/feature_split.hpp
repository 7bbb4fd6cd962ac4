// SPDX-License-Identifier: BSD-3-Clause
// How layers whose features are spread over ranks (tensor parallelism) share their work.
#pragma once

#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/partition/cuts.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace graticule::nn {

/// Which features of a layer are cut along its feature axis; the others are whole on all ranks that share the cells.
enum class FeatureSplit : std::uint8_t {
  input,   ///< row-parallel: a local product, and a sum over the ranks
  output,  ///< column-parallel: a local product; its cotangents are summed over the ranks
  both,    ///< inputs are gathered, or outputs reduced and scattered: whichever has fewer features
};

struct SplitOptions {
  FeatureSplit split = FeatureSplit::both;
  /// Who works with the side that is whole: what comes before `output`, what comes after `input`.
  /// `replicated`: all ranks do the same with it, and hold the whole cotangent. Parameters of replicated work get whole
  /// gradients, not partial sums: give them the rule `Reduction::mean` (`GradientSync::set_rules`).
  Consumer whole = Consumer::replicated;
  /// How `both` and `output` cut the outputs; none: balanced.
  std::optional<Cuts> output_cuts = {};
};

namespace detail {

struct SplitSetUp;

/// What layers with split features share. Weights are [outputs, inputs, ...] and whole on each rank.
class SplitLayer : public LayerState<SplitSetUp> {
 public:
  struct Features {
    std::int64_t axis;  ///< counted from the last one
    std::int64_t inputs;
    std::int64_t outputs;
  };
  /// The layer of some inputs to some outputs, given its slices of weight and bias (which may be undefined).
  using Local = std::function<torch::Tensor(torch::Tensor const&, torch::Tensor const&, torch::Tensor const&)>;

  /// Collective. @throws `BadSharding`, `CutsMismatch`
  SplitLayer(std::string const& name, Features features, SplitOptions options, Domain const& domain,
             Sharding const& sharding);

  torch::Tensor forward(torch::Tensor const& x, std::function<void()> const& check, torch::Tensor const& weight,
                        torch::Tensor const& bias, Local const& local);

 private:
  Features features_;
  SplitOptions options_;
  Sharding sharding_;
  std::optional<Comm> team_;
};

}  // namespace detail

}  // namespace graticule::nn
