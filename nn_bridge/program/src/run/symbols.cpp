// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "graph/number.hpp"
#include "run/frame.hpp"

#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

using c10::IValue;

Number as_number(IValue const& value) {
  if (value.isDouble()) {
    return about(value.toDouble());
  }
  if (!value.isInt() && !value.isBool()) {
    throw NotUnderstood();
  }
  return exactly(value.isBool() ? (value.toBool() ? 1 : 0) : value.toInt());
}

IValue compute(Arithmetic const& operation, std::vector<IValue> const& operands) {
  if (operation.function == "ITE") {
    return as_number(operands[0]).as_real() != 0 ? operands[1] : operands[2];
  }
  Number result = as_number(operands[0]);
  bool exact = result.exact;
  if (operation.num_operands == 1) {
    result = of_one(operation.function, result);
  }
  for (std::size_t i = 1; i < operands.size(); ++i) {
    Number const other = as_number(operands[i]);
    exact = exact && other.exact;
    result = of_two(operation.function, result, other);
  }
  if (operation.result == Arithmetic::Result::truth) {
    return result.integer != 0;
  }
  bool const whole = result.exact && (exact || operation.result == Arithmetic::Result::integer);
  return whole ? IValue(result.integer) : IValue(result.as_real());
}

ValueId result_of(Node const& node) {
  auto const* symbol = node.outputs.size() == 1 ? std::get_if<SymbolRef>(&node.outputs[0]) : nullptr;
  return symbol == nullptr ? -1 : symbol->value;
}

class SizeStep : public Step {
 public:
  SizeStep(ValueId tensor, std::optional<std::int64_t> axis, ValueId result)
      : tensor_(tensor), axis_(axis), result_(result) {}

  void run(Frame& frame) const override {
    at::Tensor const& tensor = frame.at(tensor_).toTensor();
    if (result_ >= 0) {
      frame.at(result_) = axis_ ? tensor.size(*axis_) : tensor.numel();
    }
  }

 private:
  ValueId tensor_;
  std::optional<std::int64_t> axis_;
  ValueId result_;
};

class NumberStep : public Step {
 public:
  NumberStep(Arithmetic operation, std::vector<std::variant<IValue, ValueId>> operands, ValueId result)
      : operation_(operation), operands_(std::move(operands)), result_(result) {}

  void run(Frame& frame) const override {
    std::vector<IValue> operands;
    for (auto const& operand : operands_) {
      auto const* value = std::get_if<ValueId>(&operand);
      operands.push_back(value != nullptr ? frame.at(*value) : std::get<IValue>(operand));
    }
    try {
      IValue result = compute(operation_, operands);
      if (result_ >= 0) {
        frame.at(result_) = std::move(result);
      }
    } catch (NotUnderstood const&) {
      throw std::runtime_error("the numbers have no result of 64 bits");
    }
  }

 private:
  Arithmetic operation_;
  std::vector<std::variant<IValue, ValueId>> operands_;
  ValueId result_;
};

std::variant<IValue, ValueId> operand_of(Node const& node, Argument const& argument) {
  if (auto const* symbol = std::get_if<SymbolRef>(&argument)) {
    return symbol->value;
  }
  if (auto const* integer = std::get_if<std::int64_t>(&argument)) {
    return IValue(*integer);
  }
  if (auto const* number = std::get_if<double>(&argument)) {
    return IValue(*number);
  }
  if (auto const* boolean = std::get_if<bool>(&argument)) {
    return IValue(*boolean);
  }
  broken_node(node, "it computes with numbers alone");
}

std::unique_ptr<Step> make_size_step(Node const& node) {
  auto const* tensor = std::get_if<TensorRef>(node.input("self"));
  if (tensor == nullptr) {
    broken_node(node, "the tensor is missing");
  }
  if (node.target.starts_with("aten.sym_numel")) {
    return std::make_unique<SizeStep>(tensor->value, std::nullopt, result_of(node));
  }
  auto const* axis = std::get_if<std::int64_t>(node.input("dim"));
  if (axis == nullptr) {
    broken_node(node, "the axis is missing");
  }
  return std::make_unique<SizeStep>(tensor->value, *axis, result_of(node));
}

// torch.sym_sum takes one list.
std::unique_ptr<Step> make_sum_step(Node const& node) {
  auto const* terms = node.inputs.size() == 1 ? std::get_if<Integers>(&node.inputs[0].value) : nullptr;
  if (terms == nullptr) {
    broken_node(node, "it adds a list of integers");
  }
  std::vector<std::variant<IValue, ValueId>> operands{IValue(std::int64_t(0))};
  for (auto const& term : *terms) {
    auto const* symbol = std::get_if<SymbolRef>(&term);
    if (symbol != nullptr) {
      operands.emplace_back(symbol->value);
    } else {
      operands.emplace_back(IValue(std::get<std::int64_t>(term)));
    }
  }
  return std::make_unique<NumberStep>(Arithmetic{"Add"}, std::move(operands), result_of(node));
}

}  // namespace

std::unique_ptr<Step> make_number_step(Node const& node) {
  if (node.target.starts_with("aten.")) {
    return make_size_step(node);
  }
  if (node.target == "torch.sym_sum") {
    return make_sum_step(node);
  }
  Arithmetic const* const found = find_arithmetic(node.target);
  if (found == nullptr || found->num_operands != node.inputs.size()) {
    broken_node(node, "it takes another number of operands");
  }
  std::vector<std::variant<IValue, ValueId>> operands;
  for (NamedArgument const& input : node.inputs) {
    operands.push_back(operand_of(node, input.value));
  }
  return std::make_unique<NumberStep>(*found, std::move(operands), result_of(node));
}

}  // namespace graticule::program::detail
