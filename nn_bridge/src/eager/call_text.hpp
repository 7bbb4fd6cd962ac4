// SPDX-License-Identifier: BSD-3-Clause
// One call of an operator of LibTorch as a program of one node.
#pragma once

#include <graticule/program/detail/plan.hpp>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace graticule::nn::detail {

using Values = std::vector<c10::IValue>;

/// Type and sizes of a tensor on the globe.
struct GlobeTensor {
  program::Shape shape;
  torch::ScalarType dtype = torch::kFloat;
};

/// Calls `visit` for each tensor in `value`, also in a list; those that are not defined are left out.
void for_each_tensor(c10::IValue const& value, std::function<void(torch::Tensor const&)> const& visit);
void for_each_tensor(Values const& values, std::function<void(torch::Tensor const&)> const& visit);

/// `value` with other tensors, also in a list.
[[nodiscard]] c10::IValue with_tensors_of(c10::IValue const& value,
                                          std::function<torch::Tensor(torch::Tensor const&)> const& other);

/// Of a message.
[[nodiscard]] std::string first_line(std::string text);

/// `aten.add.Tensor`
[[nodiscard]] std::string target_of(c10::FunctionSchema const& schema);

/// Whether an argument or result is of this type, or perhaps: "ScalarType".
[[nodiscard]] bool has_type(c10::Argument const& argument, std::string_view type);

/// Appends all that is no tensor, for a key.
void add_to_key(std::string& key, c10::IValue const& value);

/// The text of a graph with this one call. @param leaves the tensors that it takes, each once @param index of a leaf
/// @param results what the operator gives on the globe, as results of its schema
/// @throws Error `RefusedProgram` for an argument that programs do not have
[[nodiscard]] std::string graph_text(c10::OperatorHandle const& op, Values const& arguments,
                                     std::vector<GlobeTensor> const& leaves,
                                     std::function<std::size_t(torch::Tensor const&)> const& index,
                                     Values const& results);

}  // namespace graticule::nn::detail
