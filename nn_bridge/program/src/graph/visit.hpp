// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <algorithm>
#include <variant>

namespace graticule::program::detail {

/// Calls `visit` with the id of each tensor of an argument.
template <class Visit>
void visit_tensors(Argument const& argument, Visit const& visit) {
  if (auto const* tensor = std::get_if<TensorRef>(&argument)) {
    visit(tensor->value);
  } else if (auto const* tensors = std::get_if<Tensors>(&argument)) {
    std::ranges::for_each(*tensors, visit, &TensorRef::value);
  } else if (auto const* optional = std::get_if<OptionalTensors>(&argument)) {
    for (auto const& one : *optional) {
      if (one) {
        visit(one->value);
      }
    }
  }
}

/// Calls `visit` with the id of each value of an argument: tensors and numbers.
template <class Visit>
void visit_values(Argument const& argument, Visit const& visit) {
  visit_tensors(argument, visit);
  if (auto const* number = std::get_if<SymbolRef>(&argument)) {
    visit(number->value);
  } else if (auto const* integers = std::get_if<Integers>(&argument)) {
    for (auto const& one : *integers) {
      if (auto const* entry = std::get_if<SymbolRef>(&one)) {
        visit(entry->value);
      }
    }
  }
}

}  // namespace graticule::program::detail
