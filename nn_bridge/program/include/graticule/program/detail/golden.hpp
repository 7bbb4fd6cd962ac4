// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/program.hpp>
#include <graticule/program/sharded_program.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace graticule::program {

/// The largest relative difference of one kind, and where it is.
///
/// Tensors: max |a - b| / max |b|. Norms: |a - b| / b, where norms below 0.01 of the largest one of their kind
/// count as that large, and so do norms below 1e-4 of the loss divided by the tensor's norm (or by 1, of smaller
/// tensors): such norms are rounding errors of sums that are exactly zero. Values that are no numbers, and infinite
/// ones, are alike where both are. For complex gradients the norm of
/// the real parts is accepted as well, which is what Python's `grad.double().norm()` gives.
struct Difference {
  double largest = 0;
  std::string at;  ///< name of the output, parameter or input
};

/// Differences between what a program computes and what Python computed.
struct GoldenDifferences {
  Difference outputs;
  Difference loss;
  Difference parameter_gradients;
  Difference input_gradients;
  int num_outputs = 0;
  int num_parameters = 0;
  int num_inputs = 0;
  bool wide_figures = false;  ///< all outputs that are compared are f64 in the folder

  [[nodiscard]] double largest() const noexcept;
};

/// Runs a program forward and backward on the inputs of `folder/golden.json` and compares.
///
/// The file has `inputs` and `outputs` (`name`, `shape`, `dtype`, `file`: raw numbers beside it, low byte first; null
/// for an output that is None), `loss` (mean of the squares of output 0), `parameter_gradient_norms` by original names,
/// and `input_gradient_norms` in order. Numbers may be NaN, Infinity and -Infinity, as Python writes them. Inputs are
/// converted to the program's types. Gradients that the parameters have are dropped.
/// @throws Error `NoSuchFile`, `BadInput` (with the place), and those of `Program::run`
[[nodiscard]] GoldenDifferences compare_with_golden(Program program, std::filesystem::path const& folder);

/// The same on the ranks of a domain: each takes its part of the inputs, and the differences are those of all ranks.
/// Every rank reads the folder. Collective. `cuts` are the rows and columns of each part of the domain's grid, in total
/// those of the first field; fields of other sizes are cut into balanced parts.
[[nodiscard]] GoldenDifferences compare_with_golden(ShardedProgram shards, nn::Domain const& domain,
                                                    BlockCuts const& cuts, std::filesystem::path const& folder);

}  // namespace graticule::program
