// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::program {

/// A formula in sizes, as exported programs contain them: a size ("FloorDiv(Symbol('s7', positive=True), Integer(2))"),
/// a bound ("8*s7") or a condition ("L['x'].size()[2] % 8 == 0").
class Expression {
 public:
  /// Value of a symbol ("s7"), or of a size of an input ("L['x'].size()[2]"); nothing where it is unknown.
  using Lookup = std::function<std::optional<std::int64_t>(std::string_view name)>;

  /// Nothing is thrown for a text that is no formula or has functions not known here: such an expression has no value.
  explicit Expression(std::string_view text);

  /// The value, conditions as 0 and 1; nothing where a symbol is unknown, the result is no integer of 64 bits, or the
  /// text was not understood.
  [[nodiscard]] std::optional<std::int64_t> evaluate(Lookup const& lookup) const;
  /// The symbols in it, each once.
  [[nodiscard]] std::vector<std::string> const& symbols() const noexcept { return symbols_; }

 private:
  friend class ExpressionParser;

  struct Term {
    std::string function;  ///< "Add", "Symbol", "Integer", "Float", ...
    std::vector<std::int32_t> arguments;
    std::string symbol;
    std::int64_t integer = 0;
    double real = 0;
  };

  std::vector<Term> terms_;
  std::int32_t root_ = -1;
  std::vector<std::string> symbols_;
};

}  // namespace graticule::program
