// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/shape.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/layout/digits.hpp>
#include <graticule/program/program.hpp>

#include <torch/torch.h>

namespace graticule::test {

/// A smooth field of the sizes that the program's first input was exported with.
inline torch::Tensor whole_input(program::Program const& program) {
  auto const id = program::user_inputs(program->graph()).at(0);
  program::Sizes const sizes(program->graph());
  auto const shape = sizes(program->graph().graph.value(id).tensor).value();
  return (torch::arange(program::num_elements(shape), torch::kFloat64) * 0.01).sin().mul(0.5).reshape(shape);
}

}  // namespace graticule::test
