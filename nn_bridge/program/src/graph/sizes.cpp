// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/sizes.hpp>

#include "expression.hpp"

#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <variant>

namespace graticule::program {

namespace {

using Symbols = std::map<std::string, std::int64_t>;

Expression::Lookup lookup_in(Symbols const& symbols) {
  return [&symbols](std::string_view symbol) -> std::optional<std::int64_t> {
    auto const found = symbols.find(std::string(symbol));
    return found == symbols.end() ? std::nullopt : std::optional(found->second);
  };
}

[[noreturn]] void bad_input(std::string const& text) { throw Error(Fault::input, "ShapeMismatch", text); }

std::string axis_text(Value const& input, std::size_t axis, std::int64_t size) {
  return "input '" + input.name + "' has " + std::to_string(size) + " along axis " + std::to_string(axis);
}

// The symbol of an expression that is a * symbol + b, found by two evaluations. Nothing where there is no such whole
// number.
std::optional<std::int64_t> solve(Expression const& expression, std::string const& symbol, std::int64_t size) {
  std::int64_t trial = 0;
  Expression::Lookup const lookup = [&trial](std::string_view) { return std::optional(trial); };
  auto const at_0 = expression.evaluate(lookup);
  trial = 1;
  auto const at_1 = expression.evaluate(lookup);
  std::int64_t const large = std::int64_t(1) << 40;
  if (!at_0 || !at_1 || std::abs(*at_0) > large || std::abs(*at_1) > large || *at_1 == *at_0 ||
      (size - *at_0) % (*at_1 - *at_0) != 0) {
    return std::nullopt;
  }
  trial = (size - *at_0) / (*at_1 - *at_0);
  return expression.evaluate(lookup) == size && !symbol.empty() ? std::optional(trial) : std::nullopt;
}

// Binds what this axis determines. Returns false where the axis has several unknown symbols.
bool bind(Extent const& extent, std::int64_t size, std::string const& found, Symbols& symbols) {
  Expression const expression(extent.expression);
  std::vector<std::string> unknown;
  for (std::string const& symbol : expression.symbols()) {
    if (!symbols.contains(symbol)) {
      unknown.push_back(symbol);
    }
  }
  if (unknown.size() > 1 || (unknown.size() == 1 && expression.symbols().size() > 1)) {
    return false;
  }
  if (unknown.size() == 1) {
    auto const value = solve(expression, unknown[0], size);
    if (!value) {
      bad_input(found + ", which is no value of " + extent.expression);
    }
    symbols[unknown[0]] = *value;
  } else if (auto const value = expression.evaluate(lookup_in(symbols)); value && *value != size) {
    bad_input(found + " where " + extent.expression + " is " + std::to_string(*value));
  }
  return true;
}

void check_range(std::string const& symbol, ExportedGraph::Range const& range, Symbols const& symbols) {
  auto const value = Expression(symbol).evaluate(lookup_in(symbols));
  if (value && ((range.min && *value < *range.min) || (range.max && *value > *range.max))) {
    bad_input("the size " + symbol + " is " + std::to_string(*value) + ", and the program was exported for " +
              (range.min ? std::to_string(*range.min) : "any number") + " to " +
              (range.max ? std::to_string(*range.max) : "any number"));
  }
}

void check_guard(std::string const& guard, ExportedGraph const& program,
                 std::vector<std::vector<std::int64_t>> const& inputs) {
  // Sizes by their text in conditions: L['x'].size()[2]
  Symbols sizes;
  std::vector<ValueId> const ids = user_inputs(program);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (std::size_t axis = 0; axis < inputs[i].size(); ++axis) {
      sizes["L['" + program.graph.value(ids[i]).name + "'].size()[" + std::to_string(axis) + "]"] = inputs[i][axis];
    }
  }
  if (Expression(guard).evaluate(lookup_in(sizes)) == 0) {
    bad_input("the program was exported for inputs with " + guard);
  }
}

}  // namespace

std::vector<ValueId> user_inputs(ExportedGraph const& program) {
  std::vector<ValueId> ids;
  for (InputSpec const& input : program.inputs) {
    if (auto const* tensor = std::get_if<TensorRef>(&input.value);
        input.kind == InputSpec::Kind::user && tensor != nullptr) {
      ids.push_back(tensor->value);
    }
  }
  return ids;
}

Sizes::Sizes(ExportedGraph const&) : as_exported_(true) {}

Sizes::Sizes(ExportedGraph const& program, std::vector<std::vector<std::int64_t>> const& inputs) {
  std::vector<ValueId> const ids = user_inputs(program);
  if (inputs.size() != ids.size()) {
    bad_input(std::to_string(inputs.size()) + " tensors were given, the program takes " + std::to_string(ids.size()));
  }
  // Twice: an axis with several symbols is checked after others have determined them.
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Value const& input = program.graph.value(ids[i]);
      if (inputs[i].size() != input.tensor.sizes.size()) {
        bad_input("input '" + input.name + "' has " + std::to_string(inputs[i].size()) + " axes, the program takes " +
                  std::to_string(input.tensor.sizes.size()));
      }
      for (std::size_t axis = 0; axis < inputs[i].size(); ++axis) {
        Extent const& extent = input.tensor.sizes[axis];
        std::string const found = axis_text(input, axis, inputs[i][axis]);
        if (extent.symbolic()) {
          bind(extent, inputs[i][axis], found, symbols_);
        } else if (extent.value != inputs[i][axis]) {
          bad_input(found + ", the program was exported for " + std::to_string(extent.value) +
                    "; export it with the size at hand, or with dynamic sizes");
        }
      }
    }
  }
  for (auto const& [symbol, range] : program.ranges) {
    check_range(symbol, range, symbols_);
  }
  if (!symbols_.empty()) {
    for (std::string const& guard : program.guards) {
      check_guard(guard, program, inputs);
    }
  }
}

std::optional<std::int64_t> Sizes::operator()(Extent const& extent) const {
  if (!extent.symbolic() || as_exported_) {
    return extent.value;
  }
  return Expression(extent.expression).evaluate(lookup_in(symbols_));
}

std::optional<std::vector<std::int64_t>> Sizes::operator()(TensorMeta const& tensor) const {
  std::vector<std::int64_t> sizes;
  for (Extent const& extent : tensor.sizes) {
    auto const size = (*this)(extent);
    if (!size) {
      return std::nullopt;
    }
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace graticule::program
