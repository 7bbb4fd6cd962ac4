// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/conversion.hpp>
#include <graticule/program/program.hpp>

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

namespace graticule::program::detail {

/// What a program does before and after its nodes, for those who run the nodes in another way.
struct ProgramAccess {
  [[nodiscard]] static Conversion conversion(ProgramImpl const& program);
  /// One value per input of the graph. @throws Error `UnsupportedTensor`, `RefusedProgram`
  [[nodiscard]] static std::vector<c10::IValue> inputs(ProgramImpl const& program,
                                                       std::vector<torch::Tensor> const& inputs);
  /// Parameters, buffers and constants by their names in the file.
  [[nodiscard]] static std::map<std::string, torch::Tensor> const& tensors(ProgramImpl const& program);
  /// Turns the network to evaluation mode, for good: see `evaluated`. What `save` writes stays as it is.
  static void evaluate(ProgramImpl& program);
  /// Overwrites buffers and inputs, and returns the user's outputs.
  [[nodiscard]] static std::vector<torch::Tensor> finish(ProgramImpl& program, std::vector<torch::Tensor> const& inputs,
                                                         std::vector<c10::IValue> const& outputs);
};

}  // namespace graticule::program::detail
