// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/operators.hpp>

#include <string_view>

namespace graticule::program::detail {

class NodeShapes;

/// What is known about one operator.
struct OperatorEntry {
  OperatorClass kind;
  void (*rule)(NodeShapes&);  ///< where the axes of its result may be cut; null: every rank runs it on the whole
};

/// The entry of a name as `operator_name` gives it, with the package in front where that is not PyTorch; null where
/// there is none. The table of all operators stands in `rules.cpp`.
[[nodiscard]] OperatorEntry const* find_entry(std::string_view name);

/// The entry of an operator by the target of its node ("aten.relu_.default"); null where there is none.
[[nodiscard]] OperatorEntry const* find_operator(std::string_view target);

}  // namespace graticule::program::detail
