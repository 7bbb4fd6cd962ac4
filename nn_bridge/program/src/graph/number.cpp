// SPDX-License-Identifier: BSD-3-Clause
#include "number.hpp"

#include <graticule/partition/detail/division.hpp>

#include "graph/nodes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace graticule::program::detail {

Number to_integer(double value) {
  double const limit = 9.0e18;
  if (!(std::abs(value) < limit)) {
    throw NotUnderstood();
  }
  return exactly(static_cast<std::int64_t>(value));
}

namespace {

using Operation = bool (*)(std::int64_t, std::int64_t, std::int64_t*);

Number combine(Number const& a, Number const& b, Operation exact, double real) {
  std::int64_t result = 0;
  if (!a.exact || !b.exact) {
    return about(real);
  }
  if (exact(a.integer, b.integer, &result)) {
    throw NotUnderstood();
  }
  return exactly(result);
}

bool overflow_add(std::int64_t a, std::int64_t b, std::int64_t* r) { return __builtin_add_overflow(a, b, r); }
bool overflow_sub(std::int64_t a, std::int64_t b, std::int64_t* r) { return __builtin_sub_overflow(a, b, r); }
bool overflow_mul(std::int64_t a, std::int64_t b, std::int64_t* r) { return __builtin_mul_overflow(a, b, r); }

// Rounded down.
bool quotient_overflow(std::int64_t a, std::int64_t b, std::int64_t* r) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) {
    return true;
  }
  *r = graticule::detail::floor_div(a, b);
  return false;
}

Number power(Number const& base, Number const& exponent) {
  if (!base.exact || !exponent.exact || exponent.integer < 0) {
    return about(std::pow(base.as_real(), exponent.as_real()));
  }
  if (exponent.integer > 64) {
    throw NotUnderstood();
  }
  Number result = exactly(1);
  for (std::int64_t i = 0; i < exponent.integer; ++i) {
    result = combine(result, base, overflow_mul, 0);
  }
  return result;
}

Number quotient(std::string_view function, Number const& a, Number const& b) {
  bool const exact = a.exact && b.exact;
  if (function == "FloorDiv" || function == "CleanDiv" || function == "PythonFloorDiv") {
    return exact ? combine(a, b, quotient_overflow, 0) : to_integer(std::floor(a.as_real() / b.as_real()));
  }
  if (function == "CeilDiv") {
    Number const opposite = of_one("Neg", a);
    return exact ? of_one("Neg", combine(opposite, b, quotient_overflow, 0))
                 : to_integer(std::ceil(a.as_real() / b.as_real()));
  }
  if (function == "TrueDiv" || function == "IntTrueDiv" || function == "FloatTrueDiv" || function == "Rational") {
    return about(a.as_real() / b.as_real());
  }
  if (!exact) {  // Mod: of the sign of the divisor
    return about(a.as_real() - std::floor(a.as_real() / b.as_real()) * b.as_real());
  }
  if (b.integer == 0) {
    throw NotUnderstood();
  }
  std::int64_t const rest = b.integer == -1 ? 0 : a.integer % b.integer;
  return exactly(rest != 0 && (rest < 0) != (b.integer < 0) ? rest + b.integer : rest);
}

Number condition(std::string_view function, Number const& a, Number const& b) {
  double const x = a.as_real();
  double const y = b.as_real();
  bool const exact = a.exact && b.exact;
  int const order = exact ? (a.integer < b.integer ? -1 : a.integer > b.integer ? 1 : 0) : (x < y ? -1 : x > y ? 1 : 0);
  bool holds = order == 0;
  if (function == "Ne" || function == "Unequality") {
    holds = order != 0;
  } else if (function == "Le" || function == "LessThan") {
    holds = order <= 0;
  } else if (function == "Ge" || function == "GreaterThan") {
    holds = order >= 0;
  } else if (function == "Lt" || function == "StrictLessThan") {
    holds = order < 0;
  } else if (function == "Gt" || function == "StrictGreaterThan") {
    holds = order > 0;
  }
  return exactly(holds ? 1 : 0);
}

}  // namespace

Number of_one(std::string_view function, Number const& a) {
  if (function == "Neg") {
    return combine(exactly(0), a, overflow_sub, -a.as_real());
  }
  if (function == "Not") {
    return exactly(a.as_real() == 0 ? 1 : 0);
  }
  if (function == "ToFloat") {
    return about(a.as_real());
  }
  if (one_of(function, {"FloorToInt", "floor"})) {
    return a.exact ? a : to_integer(std::floor(a.real));
  }
  if (one_of(function, {"CeilToInt", "ceiling"})) {
    return a.exact ? a : to_integer(std::ceil(a.real));
  }
  if (one_of(function, {"TruncToInt", "Int"})) {
    return a.exact ? a : to_integer(std::trunc(a.real));
  }
  if (function == "RoundToInt") {
    return a.exact ? a : to_integer(std::nearbyint(a.real));
  }
  if (function == "Abs") {
    return a.as_real() < 0 ? of_one("Neg", a) : a;
  }
  throw NotUnderstood();
}

Number of_two(std::string_view function, Number const& a, Number const& b) {
  if (function == "Add") {
    return combine(a, b, overflow_add, a.as_real() + b.as_real());
  }
  if (function == "Sub") {
    return combine(a, b, overflow_sub, a.as_real() - b.as_real());
  }
  if (function == "Mul") {
    return combine(a, b, overflow_mul, a.as_real() * b.as_real());
  }
  if (function == "Max") {
    return a.as_real() < b.as_real() ? b : a;
  }
  if (function == "Min") {
    return b.as_real() < a.as_real() ? b : a;
  }
  if (function == "And") {
    return exactly(a.as_real() != 0 && b.as_real() != 0 ? 1 : 0);
  }
  if (function == "Or") {
    return exactly(a.as_real() != 0 || b.as_real() != 0 ? 1 : 0);
  }
  if (one_of(function, {"Pow", "PowByNatural", "FloatPow"})) {
    return power(a, b);
  }
  if (one_of(function, {"FloorDiv", "CleanDiv", "PythonFloorDiv", "CeilDiv", "TrueDiv", "IntTrueDiv", "FloatTrueDiv",
                        "Rational", "Mod", "PythonMod"})) {
    return quotient(function, a, b);
  }
  if (one_of(function, {"Eq", "Equality", "Ne", "Unequality", "Le", "LessThan", "Ge", "GreaterThan", "Lt",
                        "StrictLessThan", "Gt", "StrictGreaterThan"})) {
    return condition(function, a, b);
  }
  throw NotUnderstood();
}

Arithmetic const* find_arithmetic(std::string_view target) {
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
                                                                      {"torch.sym_ite", {"ITE", 3}},
                                                                      {"torch.sym_sum", {"Add", 1}}};  // of one list
  auto const found = table.find(target);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace graticule::program::detail
