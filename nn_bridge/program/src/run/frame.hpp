// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/conversion.hpp>
#include <graticule/program/detail/graph.hpp>
#include <graticule/program/detail/sizes.hpp>

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::program::detail {

/// The values of a graph while it runs.
struct Frame {
  std::vector<c10::IValue> values;  ///< by `ValueId`; empty before the definition and after the last use
  bool training = true;
  std::shared_ptr<void const> owner;  ///< of the graph, for a backward that runs parts of it again

  [[nodiscard]] c10::IValue const& at(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  [[nodiscard]] c10::IValue& at(ValueId id) { return values[static_cast<std::size_t>(id)]; }
};

/// One node, ready to run.
class Step {
 public:
  Step() = default;
  Step(Step const&) = delete;
  Step& operator=(Step const&) = delete;
  virtual ~Step() = default;

  virtual void run(Frame& frame) const = 0;
  /// Whether other ranks take part in it.
  [[nodiscard]] virtual bool communicates() const { return false; }
  /// The sizes of the inputs have changed.
  virtual void bind(Sizes const& sizes);
};

/// A node that computes a number from sizes: `aten.sym_size.int`, `_operator.floordiv`, `torch.sym_max`, ...
/// @throws Error `BrokenFile` for arguments that the operation does not take
[[nodiscard]] std::unique_ptr<Step> make_number_step(Node const& node);

/// A node that runs a graph under automatic casts, or with or without the recording of gradients.
/// @throws Error `BrokenFile` for arguments of another form
[[nodiscard]] std::unique_ptr<Step> make_subgraph_step(Node const& node, Conversion const& conversion);

/// The step under the automatic casts of a node.
[[nodiscard]] std::unique_ptr<Step> in_casts(Node::Casts const& casts, Conversion const& conversion,
                                             std::unique_ptr<Step> step);

}  // namespace graticule::program::detail
