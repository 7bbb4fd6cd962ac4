// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/conversion.hpp>

#include "run/frame.hpp"

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace graticule::program::detail {

/// The arguments of one call: constants made once, and where values of the frame go.
class CallArguments {
 public:
  /// @throws Error `BrokenFile` for arguments that the operator does not take
  CallArguments(Graph const& graph, Node const& node, c10::FunctionSchema const& schema, Conversion const& conversion);

  /// All arguments in the order of the schema.
  [[nodiscard]] c10::Stack fill(Frame const& frame) const;

 private:
  struct OfValue {
    ValueId value;
  };
  // A symbolic number where a tensor is expected.
  struct Wrapped {
    ValueId value;
  };
  struct OfTensors {
    std::vector<ValueId> values;
  };
  struct OfOptionalTensors {
    std::vector<ValueId> values;  // -1: none
  };
  struct OfIntegers {
    Integers values;
  };
  // What holds in `eval`: dropout is off.
  struct InEval {
    c10::IValue value;
  };
  struct Fill {
    std::size_t position;
    std::variant<OfValue, Wrapped, OfTensors, OfOptionalTensors, OfIntegers, InEval> source;
  };

  class Builder;

  std::vector<c10::IValue> constants_;
  std::vector<Fill> fills_;
};

}  // namespace graticule::program::detail
