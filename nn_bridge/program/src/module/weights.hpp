// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include "archive/archive.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace graticule::program::detail {

/// The tensors of a program by their names in the file.
struct Weights {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, Dtype> dtypes;  ///< in the file
  /// Parameters whose tensor is another's: {name, name that it is registered under}.
  std::vector<std::pair<std::string, std::string>> aliases;
};

/// Takes the tensors over from the file and compares them with the signature.
/// @throws Error `BrokenFile`: one is missing, or has other sizes or another type than the graph says
[[nodiscard]] Weights take_weights(ExportedGraph const& program, ArchiveContent& content);
/// Takes the caller's tensors over as they are; parameters that are one tensor are aliases.
/// @throws Error as above
[[nodiscard]] Weights take_weights(ExportedGraph const& program, std::map<std::string, torch::Tensor> tensors);

}  // namespace graticule::program::detail
