// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include <torch/torch.h>

#include <string>
#include <vector>

namespace graticule::training::detail {

struct FoundUnit {
  std::string name;
  torch::nn::Module* module = nullptr;
  nn::Hooked* hooked = nullptr;  ///< nothing for a model that is no unit
  nn::NamedTensors parameters;   ///< in no unit below
};

struct UnitSearch {
  std::vector<FoundUnit> units;  ///< those below others first; the model is the last
  nn::NamedTensors ignored;      ///< parameters that stay whole
  std::vector<std::string> notes;
};

/// Divides the parameters of a model into units. Local.
/// @throws `NoParameters`, `WrongState`, `UnknownName`, `ParametersChanged`, `UnsupportedTensor`
[[nodiscard]] UnitSearch find_units(std::shared_ptr<torch::nn::Module> const& model,
                                    ShardedParametersOptions const& options);

}  // namespace graticule::training::detail
