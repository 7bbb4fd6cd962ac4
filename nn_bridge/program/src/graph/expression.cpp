// SPDX-License-Identifier: BSD-3-Clause
#include "expression.hpp"

#include "graph/nodes.hpp"
#include "number.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <utility>

namespace graticule::program {

using detail::about;
using detail::exactly;
using detail::NotUnderstood;
using detail::Number;
using detail::one_of;

namespace {

// A formula of a network is short; a damaged one may nest without end.
constexpr int max_depth = 200;

}  // namespace

// Recursive descent over Python's operators and sympy's calls, which share one grammar.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, Expression& result) : text_(text), result_(result) {}

  std::int32_t parse() {
    std::int32_t const root = disjunction();
    skip_blanks();
    if (at_ != text_.size()) {
      throw NotUnderstood();
    }
    return root;
  }

 private:
  using Id = std::int32_t;

  struct Level {
    explicit Level(int& depth) : depth_(depth) {
      if (++depth_ > max_depth) {
        throw NotUnderstood();
      }
    }
    ~Level() { --depth_; }
    int& depth_;
  };

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }

  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) {
      return false;
    }
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) {
      throw NotUnderstood();
    }
  }

  static bool of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

  bool take_word(std::string_view word) {
    skip_blanks();
    auto const rest = text_.substr(at_);
    if (!rest.starts_with(word) || (rest.size() > word.size() && of_a_name(rest[word.size()]))) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  std::string name() {
    skip_blanks();
    auto const begin = at_;
    while (at_ < text_.size() && of_a_name(text_[at_])) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  Id term(std::string function, std::vector<Id> arguments) {
    result_.terms_.push_back({std::move(function), std::move(arguments), {}, 0, 0});
    return static_cast<Id>(result_.terms_.size() - 1);
  }

  Id symbol(std::string const& text) {
    Id const id = term("Symbol", {});
    result_.terms_.back().symbol = text;
    if (std::ranges::find(result_.symbols_, text) == result_.symbols_.end()) {
      result_.symbols_.push_back(text);
    }
    return id;
  }

  Id number() {
    skip_blanks();
    auto const begin = at_;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) {
      ++at_;
    }
    bool real = false;
    for (; at_ < text_.size(); ++at_) {
      char const c = text_[at_];
      bool const exponent_sign = (c == '-' || c == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (c == '.' || c == 'e' || c == 'E' || exponent_sign) {
        real = true;
      } else if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
        break;
      }
    }
    auto const digits = text_.substr(begin, at_ - begin);
    Id const id = term(real ? "Float" : "Integer", {});
    auto& made = result_.terms_.back();
    auto const end = digits.data() + digits.size();
    auto const read =
        real ? std::from_chars(digits.data(), end, made.real) : std::from_chars(digits.data(), end, made.integer);
    if (digits.empty() || read.ec != std::errc() || read.ptr != end) {
      throw NotUnderstood();
    }
    return id;
  }

  Id disjunction() {
    Level const level(depth_);
    Id left = conjunction();
    while (take_word("or")) {
      left = term("Or", {left, conjunction()});
    }
    return left;
  }

  Id conjunction() {
    Id left = negation();
    while (take_word("and")) {
      left = term("And", {left, negation()});
    }
    return left;
  }

  Id negation() {
    Level const level(depth_);
    return take_word("not") ? term("Not", {negation()}) : comparison();
  }

  using Operators = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  // The function of the operator that comes next; nothing for another text.
  std::string taken(Operators operators) {
    auto const* const found = std::ranges::find_if(operators, [this](auto const& one) { return take(one.first); });
    return found == operators.end() ? std::string() : std::string(found->second);
  }

  // What `next` reads, with such operators between, from the left.
  Id series(Id (ExpressionParser::*next)(), Operators operators) {
    Id left = (this->*next)();
    for (auto function = taken(operators); !function.empty(); function = taken(operators)) {
      left = term(function, {left, (this->*next)()});
    }
    return left;
  }

  Id comparison() {
    Id const left = sum();
    auto const function = taken({{"==", "Eq"}, {"!=", "Ne"}, {"<=", "Le"}, {">=", "Ge"}, {"<", "Lt"}, {">", "Gt"}});
    return function.empty() ? left : term(function, {left, sum()});
  }

  Id sum() { return series(&ExpressionParser::product, {{"+", "Add"}, {"-", "Sub"}}); }

  Id product() {
    return series(&ExpressionParser::factor, {{"//", "FloorDiv"}, {"/", "TrueDiv"}, {"*", "Mul"}, {"%", "Mod"}});
  }

  Id factor() {
    Level const level(depth_);
    if (take("-")) {
      return term("Neg", {factor()});
    }
    Id const base = primary();
    return take("**") ? term("Pow", {base, factor()}) : base;
  }

  Id primary() {
    skip_blanks();
    if (take("(")) {
      Id const inner = disjunction();
      expect(")");
      return inner;
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      return number();
    }
    if (text_.substr(at_).starts_with("L[")) {
      return input_size();
    }
    std::string word = name();
    if (word.empty()) {
      throw NotUnderstood();
    }
    return take("(") ? call(std::move(word)) : symbol(word);
  }

  // L['x'].size()[2], or any other path to a size: a symbol by its text.
  Id input_size() {
    auto const begin = at_;
    std::string_view const size = ".size()[";
    auto const found = text_.find(size, at_);
    auto const end = found == std::string_view::npos ? found : text_.find(']', found + size.size());
    if (end == std::string_view::npos ||
        text_.substr(begin, found - begin).find_first_of(" ()+*<>=") != std::string_view::npos) {
      throw NotUnderstood();
    }
    at_ = end + 1;
    return symbol(std::string(text_.substr(begin, at_ - begin)));
  }

  std::string quoted() {
    expect("'");
    auto const end = text_.find('\'', at_);
    if (end == std::string_view::npos) {
      throw NotUnderstood();
    }
    std::string const inner(text_.substr(at_, end - at_));
    at_ = end + 1;
    return inner;
  }

  // Symbol('s7', positive=True), Integer(-1), Float('0.5', precision=53), FloorDiv(a, b).
  Id call(std::string function) {
    if (function == "Symbol") {
      Id const id = symbol(quoted());
      skip_keywords();
      return id;
    }
    if (function == "Float") {
      std::string const digits = quoted();
      Id const id = term("Float", {});
      char* end = nullptr;
      result_.terms_.back().real = std::strtod(digits.c_str(), &end);
      if (digits.empty() || *end != '\0') {
        throw NotUnderstood();
      }
      skip_keywords();
      return id;
    }
    if (function == "Integer") {
      Id const id = number();
      expect(")");
      return id;
    }
    std::vector<Id> arguments;
    while (!take(")")) {
      if (!arguments.empty()) {
        expect(",");
      }
      arguments.push_back(disjunction());
    }
    return term(std::move(function), std::move(arguments));
  }

  void skip_keywords() {
    auto const end = text_.find(')', at_);
    if (end == std::string_view::npos) {
      throw NotUnderstood();
    }
    at_ = end + 1;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Expression& result_;
};

Expression::Expression(std::string_view text) {
  try {
    root_ = ExpressionParser(text, *this).parse();
  } catch (NotUnderstood const&) {
    root_ = -1;
  }
}

std::optional<std::int64_t> Expression::evaluate(Lookup const& lookup) const {
  if (root_ < 0) {
    return std::nullopt;
  }
  // Arguments stand before the terms that use them.
  std::vector<Number> values;
  values.reserve(terms_.size());
  try {
    for (Term const& term : terms_) {
      if (term.function == "Symbol") {
        auto const value = lookup(term.symbol);
        if (!value) {
          return std::nullopt;
        }
        values.push_back(exactly(*value));
      } else if (term.arguments.empty()) {
        if (!one_of(term.function, {"Integer", "Float"})) {
          return std::nullopt;
        }
        values.push_back(term.function == "Integer" ? exactly(term.integer) : about(term.real));
      } else if (term.arguments.size() == 1) {
        values.push_back(detail::of_one(term.function, values[static_cast<std::size_t>(term.arguments[0])]));
      } else {
        Number result = values[static_cast<std::size_t>(term.arguments[0])];
        for (std::size_t i = 1; i < term.arguments.size(); ++i) {
          result = detail::of_two(term.function, result, values[static_cast<std::size_t>(term.arguments[i])]);
        }
        values.push_back(result);
      }
    }
    Number const& result = values[static_cast<std::size_t>(root_)];
    double const nearest = std::nearbyint(result.real);
    if (!result.exact && !(std::abs(result.real - nearest) <= 1e-9 * std::max(1.0, std::abs(nearest)))) {
      return std::nullopt;
    }
    return result.exact ? result.integer : detail::to_integer(nearest).integer;
  } catch (NotUnderstood const&) {
    return std::nullopt;
  }
}

}  // namespace graticule::program
