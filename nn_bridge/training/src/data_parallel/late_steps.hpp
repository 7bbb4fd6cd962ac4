// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/unit.hpp>

#include "reducer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// Why an optimizer cannot be stepped parameter by parameter; empty where it can.
[[nodiscard]] std::string why_not_late(std::vector<torch::optim::Optimizer*> const& optimizers,
                                       std::vector<ReducedParameter> const& parameters);

/// Steps an optimizer unit by unit, each in its next forward.
class LateSteps {
 public:
  LateSteps(torch::nn::Module& module, torch::optim::Optimizer& optimizer, Reducer& reducer);
  LateSteps(LateSteps const&) = delete;
  LateSteps& operator=(LateSteps const&) = delete;
  ~LateSteps();

  /// Updates what is in no unit, and takes the gradients of the others.
  void step();
  /// Updates all that is still to be updated.
  void finalize();

 private:
  struct UnitHooks;
  struct Unit {
    std::weak_ptr<torch::nn::Module> module;
    std::shared_ptr<UnitHooks> hooks;
    std::vector<std::size_t> parameters;
  };

  void find_units(std::shared_ptr<torch::nn::Module> const& module, std::size_t unit);
  void add_parameters(torch::nn::Module const& module, std::size_t unit);
  void update(std::vector<std::size_t> const& parameters);

  torch::optim::Optimizer& optimizer_;
  Reducer& reducer_;
  std::vector<Unit> units_;  ///< the first one is none: what has to be updated by `step`
  std::vector<std::size_t> in_units_;
  std::vector<bool> due_;
  std::unique_ptr<torch::optim::OptimizerOptions> options_;  ///< of the step
};

}  // namespace graticule::training::detail
