// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace graticule::program {

/// Values of the symbols of a program for the inputs at hand.
///
/// Example: a program exported with x[1, 3, s7, 2*s9] that is given x[1, 3, 721, 1440] has s7 = 721 and s9 = 720.
class Sizes {
 public:
  /// The sizes that the program was exported with.
  explicit Sizes(ExportedGraph const& program);
  /// The sizes of these inputs, in the order of `user_inputs`.
  /// @throws Error `ShapeMismatch` with input and axis: wrong number of inputs or axes, a size other than the
  /// program's, a symbol
  ///   out of its bounds, a condition (`ExportedGraph::guards`) that does not hold
  Sizes(ExportedGraph const& program, std::vector<std::vector<std::int64_t>> const& inputs);

  /// Value of a size; nothing where its expression is not understood.
  [[nodiscard]] std::optional<std::int64_t> operator()(Extent const& extent) const;
  /// All sizes of a tensor; nothing where one is not understood.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> operator()(TensorMeta const& tensor) const;

  [[nodiscard]] std::map<std::string, std::int64_t> const& symbols() const noexcept { return symbols_; }

 private:
  std::map<std::string, std::int64_t> symbols_;
  bool as_exported_ = false;
};

/// Ids of the user's inputs that are tensors, in order.
[[nodiscard]] std::vector<ValueId> user_inputs(ExportedGraph const& program);

}  // namespace graticule::program
