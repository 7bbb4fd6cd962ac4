// SPDX-License-Identifier: BSD-3-Clause
#include "run/symbols.hpp"

#include <graticule/partition/error.hpp>

#include "graph/quotient.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

using c10::IValue;

struct BadOperands {};

double real(IValue const& value) {
  if (value.isDouble()) {
    return value.toDouble();
  }
  if (value.isInt()) {
    return static_cast<double>(value.toInt());
  }
  if (value.isBool()) {
    return value.toBool() ? 1 : 0;
  }
  throw BadOperands();
}

std::int64_t whole(IValue const& value) {
  if (value.isBool()) {
    return value.toBool() ? 1 : 0;
  }
  if (!value.isInt()) {
    throw BadOperands();
  }
  return value.toInt();
}

std::int64_t whole(double value) {
  double const limit = 9.0e18;
  if (!(std::abs(value) < limit)) {
    throw BadOperands();
  }
  return static_cast<std::int64_t>(value);
}

bool both_whole(IValue const& a, IValue const& b) { return !a.isDouble() && !b.isDouble(); }

template <class OfIntegers, class OfReals>
IValue combine(IValue const& a, IValue const& b, OfIntegers const& of_integers, OfReals const& of_reals) {
  if (!both_whole(a, b)) {
    return of_reals(real(a), real(b));
  }
  std::int64_t result = 0;
  if (of_integers(whole(a), whole(b), &result)) {
    throw BadOperands();
  }
  return result;
}

IValue sum(IValue const& a, IValue const& b) {
  return combine(
      a, b, [](auto x, auto y, auto* r) { return __builtin_add_overflow(x, y, r); },
      [](double x, double y) { return x + y; });
}

IValue power(IValue const& a, IValue const& b) {
  if (!both_whole(a, b) || whole(b) < 0) {
    return std::pow(real(a), real(b));
  }
  std::int64_t result = 1;
  std::int64_t const base = whole(a);
  std::int64_t const largest_exponent = 64;
  if (whole(b) > largest_exponent) {
    throw BadOperands();
  }
  for (std::int64_t i = 0; i < whole(b); ++i) {
    if (__builtin_mul_overflow(result, base, &result)) {
      throw BadOperands();
    }
  }
  return result;
}

IValue modulo(IValue const& a, IValue const& b) {
  if (!both_whole(a, b)) {
    return real(a) - std::floor(real(a) / real(b)) * real(b);
  }
  std::int64_t const divisor = whole(b);
  if (divisor == 0) {
    throw BadOperands();
  }
  std::int64_t const rest = divisor == -1 ? 0 : whole(a) % divisor;
  return rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;
}

int compare(IValue const& a, IValue const& b) {
  if (both_whole(a, b)) {
    return whole(a) < whole(b) ? -1 : whole(a) > whole(b) ? 1 : 0;
  }
  return real(a) < real(b) ? -1 : real(a) > real(b) ? 1 : 0;
}

using Operands = std::vector<IValue>;
using Operation = std::function<IValue(Operands const&)>;
struct Entry {
  std::size_t num_operands;
  Operation operation;
};

std::unordered_map<std::string, Entry> make_operations() {
  auto const two = [](auto function) {
    return Entry{2, [function](Operands const& o) -> IValue { return function(o[0], o[1]); }};
  };
  auto const one = [](auto function) {
    return Entry{1, [function](Operands const& o) -> IValue { return function(o[0]); }};
  };
  std::unordered_map<std::string, Entry> table;
  table["_operator.add"] = two(sum);
  table["_operator.sub"] = two([](IValue const& a, IValue const& b) {
    return combine(
        a, b, [](auto x, auto y, auto* r) { return __builtin_sub_overflow(x, y, r); },
        [](double x, double y) { return x - y; });
  });
  table["_operator.mul"] = two([](IValue const& a, IValue const& b) {
    return combine(
        a, b, [](auto x, auto y, auto* r) { return __builtin_mul_overflow(x, y, r); },
        [](double x, double y) { return x * y; });
  });
  table["_operator.floordiv"] = two([](IValue const& a, IValue const& b) {
    return combine(a, b, quotient_overflow, [](double x, double y) { return std::floor(x / y); });
  });
  table["_operator.truediv"] = two([](IValue const& a, IValue const& b) { return IValue(real(a) / real(b)); });
  table["_operator.mod"] = two(modulo);
  table["_operator.pow"] = two(power);
  table["_operator.eq"] = two([](IValue const& a, IValue const& b) { return IValue(compare(a, b) == 0); });
  table["_operator.ne"] = two([](IValue const& a, IValue const& b) { return IValue(compare(a, b) != 0); });
  table["_operator.lt"] = two([](IValue const& a, IValue const& b) { return IValue(compare(a, b) < 0); });
  table["_operator.le"] = two([](IValue const& a, IValue const& b) { return IValue(compare(a, b) <= 0); });
  table["_operator.gt"] = two([](IValue const& a, IValue const& b) { return IValue(compare(a, b) > 0); });
  table["_operator.ge"] = two([](IValue const& a, IValue const& b) { return IValue(compare(a, b) >= 0); });
  table["_operator.and_"] =
      two([](IValue const& a, IValue const& b) { return IValue(whole(a) != 0 && whole(b) != 0); });
  table["_operator.or_"] = two([](IValue const& a, IValue const& b) { return IValue(whole(a) != 0 || whole(b) != 0); });
  table["torch.sym_max"] = two([](IValue const& a, IValue const& b) { return compare(a, b) < 0 ? b : a; });
  table["torch.sym_min"] = two([](IValue const& a, IValue const& b) { return compare(b, a) < 0 ? b : a; });
  table["_operator.neg"] = one([](IValue const& a) { return a.isDouble() ? IValue(-real(a)) : IValue(-whole(a)); });
  table["math.ceil"] = one([](IValue const& a) { return IValue(whole(std::ceil(real(a)))); });
  table["math.floor"] = one([](IValue const& a) { return IValue(whole(std::floor(real(a)))); });
  table["math.trunc"] = one([](IValue const& a) { return IValue(whole(std::trunc(real(a)))); });
  table["round"] = one([](IValue const& a) { return IValue(whole(std::nearbyint(real(a)))); });
  table["torch.sym_float"] = one([](IValue const& a) { return IValue(real(a)); });
  table["torch.sym_int"] =
      one([](IValue const& a) { return IValue(a.isDouble() ? whole(std::trunc(real(a))) : whole(a)); });
  table["torch.sym_not"] = one([](IValue const& a) { return IValue(whole(a) == 0); });
  table["torch.sym_ite"] = {3, [](Operands const& o) { return whole(o[0]) != 0 ? o[1] : o[2]; }};
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
  NumberStep(Operation operation, std::vector<std::variant<IValue, ValueId>> operands, ValueId result)
      : operation_(std::move(operation)), operands_(std::move(operands)), result_(result) {}

  void run(Frame& frame) const override {
    Operands operands;
    for (auto const& operand : operands_) {
      auto const* value = std::get_if<ValueId>(&operand);
      operands.push_back(value != nullptr ? frame.at(*value) : std::get<IValue>(operand));
    }
    try {
      IValue result = operation_(operands);
      if (result_ >= 0) {
        frame.at(result_) = std::move(result);
      }
    } catch (BadOperands const&) {
      throw std::runtime_error("the numbers have no result of 64 bits");
    }
  }

 private:
  Operation operation_;
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
  std::vector<std::variant<IValue, ValueId>> operands;
  for (auto const& term : *terms) {
    auto const* symbol = std::get_if<SymbolRef>(&term);
    if (symbol != nullptr) {
      operands.emplace_back(symbol->value);
    } else {
      operands.emplace_back(IValue(std::get<std::int64_t>(term)));
    }
  }
  Operation const add_all = [](Operands const& values) {
    IValue total = std::int64_t(0);
    for (IValue const& value : values) {
      total = sum(total, value);
    }
    return total;
  };
  return std::make_unique<NumberStep>(add_all, std::move(operands), result_of(node));
}

}  // namespace

std::unique_ptr<Step> make_number_step(Node const& node) {
  if (node.target.starts_with("aten.")) {
    return make_size_step(node);
  }
  if (node.target == "torch.sym_sum") {
    return make_sum_step(node);
  }
  static std::unordered_map<std::string, Entry> const operations = make_operations();
  auto const found = operations.find(node.target);
  if (found == operations.end() || found->second.num_operands != node.inputs.size()) {
    not_taken(node, "it takes another number of operands");
  }
  std::vector<std::variant<IValue, ValueId>> operands;
  for (NamedArgument const& input : node.inputs) {
    operands.push_back(operand_of(node, input.value));
  }
  return std::make_unique<NumberStep>(found->second.operation, std::move(operands), result_of(node));
}

}  // namespace graticule::program::detail
