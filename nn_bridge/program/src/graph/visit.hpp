// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <algorithm>
#include <concepts>
#include <type_traits>
#include <variant>

namespace graticule::program::detail {

template <class T>
concept AnArgument = std::same_as<std::remove_const_t<T>, Argument>;

/// Calls `visit` with the id of each tensor of an argument; it may change ids of one that is not const.
template <AnArgument A, class Visit>
void visit_tensors(A& argument, Visit const& visit) {
  if (auto* tensor = std::get_if<TensorRef>(&argument)) {
    visit(tensor->value);
  } else if (auto* tensors = std::get_if<Tensors>(&argument)) {
    std::ranges::for_each(*tensors, visit, &TensorRef::value);
  } else if (auto* optional = std::get_if<OptionalTensors>(&argument)) {
    for (auto& one : *optional) {
      if (one) {
        visit(one->value);
      }
    }
  }
}

/// The same of each value of an argument: tensors and numbers.
template <AnArgument A, class Visit>
void visit_values(A& argument, Visit const& visit) {
  visit_tensors(argument, visit);
  if (auto* number = std::get_if<SymbolRef>(&argument)) {
    visit(number->value);
  } else if (auto* integers = std::get_if<Integers>(&argument)) {
    for (auto& one : *integers) {
      if (auto* entry = std::get_if<SymbolRef>(&one)) {
        visit(entry->value);
      }
    }
  }
}

}  // namespace graticule::program::detail
