// SPDX-License-Identifier: BSD-3-Clause
#include "run/symbols.hpp"

#include <graticule/partition/error.hpp>

#include "graph/number.hpp"

#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

using c10::IValue;

// What a node computes, by the name of the formula that does the same.
struct Arithmetic {
  std::string_view function;
  std::size_t num_operands = 2;
  enum class Result { number, integer, truth } result = Result::number;
};

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

std::unordered_map<std::string_view, Arithmetic> const& arithmetic_table() {
  using enum Arithmetic::Result;
  static std::unordered_map<std::string_view, Arithmetic> const table{{"_operator.add", {"Add"}},
                                                                      {"_operator.sub", {"Sub"}},
                                                                      {"_operator.mul", {"Mul"}},
                                                                      {"_operator.floordiv", {"FloorDiv"}},
                                                                      {"_operator.truediv", {"TrueDiv"}},
                                                                      {"_operator.mod", {"Mod"}},
                                                                      {"_operator.pow", {"Pow"}},
                                                                      {"_operator.eq", {"Eq", 2, truth}},
                                                                      {"_operator.ne", {"Ne", 2, truth}},
                                                                      {"_operator.lt", {"Lt", 2, truth}},
                                                                      {"_operator.le", {"Le", 2, truth}},
                                                                      {"_operator.gt", {"Gt", 2, truth}},
                                                                      {"_operator.ge", {"Ge", 2, truth}},
                                                                      {"_operator.and_", {"And", 2, truth}},
                                                                      {"_operator.or_", {"Or", 2, truth}},
                                                                      {"torch.sym_max", {"Max"}},
                                                                      {"torch.sym_min", {"Min"}},
                                                                      {"_operator.neg", {"Neg", 1}},
                                                                      {"math.ceil", {"CeilToInt", 1, integer}},
                                                                      {"math.floor", {"FloorToInt", 1, integer}},
                                                                      {"math.trunc", {"TruncToInt", 1, integer}},
                                                                      {"round", {"RoundToInt", 1, integer}},
                                                                      {"torch.sym_float", {"ToFloat", 1}},
                                                                      {"torch.sym_int", {"TruncToInt", 1, integer}},
                                                                      {"torch.sym_not", {"Not", 1, truth}},
                                                                      {"torch.sym_ite", {"ITE", 3}}};
  return table;
}

ValueId result_of(Node const& node) {
  auto const* symbol = node.outputs.size() == 1 ? std::get_if<SymbolRef>(&node.outputs[0]) : nullptr;
  return symbol == nullptr ? -1 : symbol->value;
}

[[noreturn]] void not_taken(Node const& node, char const* why) {
  throw Error(Fault::input, "BrokenFile", node.describe() + ": " + why);
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
  not_taken(node, "it computes with numbers alone");
}

std::unique_ptr<Step> make_size_step(Node const& node) {
  auto const* self = node.input("self");
  auto const* tensor = self == nullptr ? nullptr : std::get_if<TensorRef>(self);
  if (tensor == nullptr) {
    not_taken(node, "the tensor is missing");
  }
  if (node.target.starts_with("aten.sym_numel")) {
    return std::make_unique<SizeStep>(tensor->value, std::nullopt, result_of(node));
  }
  auto const* dim = node.input("dim");
  auto const* axis = dim == nullptr ? nullptr : std::get_if<std::int64_t>(dim);
  if (axis == nullptr) {
    not_taken(node, "the axis is missing");
  }
  return std::make_unique<SizeStep>(tensor->value, *axis, result_of(node));
}

// torch.sym_sum takes one list.
std::unique_ptr<Step> make_sum_step(Node const& node) {
  auto const* terms = node.inputs.size() == 1 ? std::get_if<Integers>(&node.inputs[0].value) : nullptr;
  if (terms == nullptr) {
    not_taken(node, "it adds a list of integers");
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
  auto const found = arithmetic_table().find(node.target);
  if (found == arithmetic_table().end() || found->second.num_operands != node.inputs.size()) {
    not_taken(node, "it takes another number of operands");
  }
  std::vector<std::variant<IValue, ValueId>> operands;
  for (NamedArgument const& input : node.inputs) {
    operands.push_back(operand_of(node, input.value));
  }
  return std::make_unique<NumberStep>(found->second, std::move(operands), result_of(node));
}

}  // namespace graticule::program::detail
