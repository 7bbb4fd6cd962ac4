// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic with sizes, in formulas of a file and in nodes of a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace graticule::program::detail {

/// Integers stay exact; a real anywhere makes the result real.
struct Number {
  std::int64_t integer = 0;
  double real = 0;
  bool exact = true;

  [[nodiscard]] double as_real() const { return exact ? static_cast<double>(integer) : real; }
};

[[nodiscard]] inline Number exactly(std::int64_t value) { return {value, 0, true}; }
[[nodiscard]] inline Number about(double value) { return {0, value, false}; }

/// Thrown where there is no result of 64 bits, and for what is not known here.
struct NotUnderstood {};

/// @throws NotUnderstood
[[nodiscard]] Number to_integer(double value);
/// A function by sympy's name: "Neg", "FloorToInt", ... Conditions are 0 or 1. @throws NotUnderstood
[[nodiscard]] Number of_one(std::string_view function, Number const& a);
/// "Add", "FloorDiv", "Mod", "Le", ... @throws NotUnderstood
[[nodiscard]] Number of_two(std::string_view function, Number const& a, Number const& b);

/// What a node computes from numbers.
struct Arithmetic {
  std::string_view function;  ///< the formula that does the same
  std::size_t num_operands = 2;
  enum class Result { number, integer, truth } result = Result::number;
};

/// By the target of a node, "_operator.add"; null for another one.
[[nodiscard]] Arithmetic const* find_arithmetic(std::string_view target);

}  // namespace graticule::program::detail
