// SPDX-License-Identifier: BSD-3-Clause
#include "help.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

namespace graticule::app {

namespace {

constexpr std::size_t line_width = 110;

/// Longer lists of choices stand in the description.
constexpr std::size_t longest_label = 60;

/// Limits that only keep numbers within their types are not shown.
constexpr double large = 1e5;

/// CLI11's name of a type, such as `INT:INT in [1 - 64]` or `TEXT:{a,b}`: the type, and the checks.
std::pair<std::string, std::string> type_and_checks(CLI::Option const& option) {
  auto const text = option.get_type_name();
  auto const colon = text.find(':');
  // Lists of choices may contain colons of their own.
  if (colon == std::string::npos || text.find('|') < colon || text.find('[') < colon) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

bool is_list(CLI::Option const& option) { return option.get_expected_max() >= CLI::detail::expected_max_vector_size; }

/// What stands for the value: `N`, `X`, `a|b`, `TEXT`.
std::string label_of(CLI::Option const& option) {
  auto const [type, checks] = type_and_checks(option);
  std::string label = type;
  if (auto const begin = checks.find('{'); begin != std::string::npos) {
    label = checks.substr(begin + 1, checks.find('}') - begin - 1);
    std::replace(label.begin(), label.end(), ',', '|');
  } else if (type == "INT" || type == "UINT") {
    label = "N";
  } else if (type == "FLOAT") {
    label = "X";
  } else if (checks == "DIR") {
    label = "FOLDER";
  }
  return is_list(option) ? label + ",..." : label;
}

/// `1 to 64`, `> 0`, `odd, 1 to 31`; empty where nothing is to be said.
std::string range_of(CLI::Option const& option) {
  auto checks = type_and_checks(option).second;
  if (checks.empty() || checks.find('{') != std::string::npos || checks == "DIR") return {};
  if (checks == "NONNEGATIVE") return ">= 0";
  if (checks.starts_with("ODD ")) return "odd, " + checks.substr(4);
  auto const begin = checks.find(" in [");
  if (begin == std::string::npos) return checks;
  auto const middle = checks.find(" - ", begin);
  auto const lo = checks.substr(begin + 5, middle - begin - 5);
  auto const hi = checks.substr(middle + 3, checks.find(']') - middle - 3);
  if (std::strtod(hi.c_str(), nullptr) < large) return lo + " to " + hi;
  return std::strtod(lo.c_str(), nullptr) > 0 ? lo + " or more" : std::string();
}

std::string default_of(CLI::Option const& option) {
  auto text = option.get_default_str();
  if (is_list(option) && text.starts_with("[") && text.ends_with("]")) text = text.substr(1, text.size() - 2);
  return text;
}

/// The description and, in brackets, whatever else there is to know.
std::string description_of(CLI::Option const& option) {
  std::vector<std::string> facts;
  if (option.get_required()) facts.emplace_back("required");
  if (auto const label = label_of(option); label.size() > longest_label) {
    facts.emplace_back();
    for (char const c : label) facts.back() += c == '|' ? ", " : std::string(1, c);
  }
  if (auto const range = range_of(option); !range.empty()) facts.push_back(range);
  if (auto const usual = default_of(option); option.get_expected_max() > 0 && !usual.empty())
    facts.push_back("default: " + usual);
  if (auto const name = option.get_envname(); !name.empty()) facts.push_back("environment: " + name);
  std::string text = option.get_description();
  auto const* const begin = text.find('\n') == std::string::npos ? " [" : "\n[";
  for (std::size_t i = 0; i < facts.size(); ++i) text += (i == 0 ? begin : "; ") + facts[i];
  return facts.empty() ? text : text + "]";
}

/// Appends the words of `text` in lines that begin at `column`; a line of `text` begins a new one.
void append_wrapped(std::string& out, std::string const& text, std::size_t column) {
  std::istringstream lines(text);
  std::size_t used = column;
  auto const end_line = [&] {
    out += "\n" + std::string(column, ' ');
    used = column;
  };
  for (std::string line; std::getline(lines, line);) {
    if (used > column) end_line();
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (used > column && used + 1 + word.size() > line_width) end_line();
      if (used > column) out += ' ';
      out += word;
      used += word.size() + (used > column ? 1 : 0);
    }
  }
}

}  // namespace

std::string HelpFormatter::make_description(CLI::App const* app) const {
  std::string out;
  append_wrapped(out, app->get_description(), 0);
  return out + "\n";
}

std::string HelpFormatter::make_usage(CLI::App const* app, std::string name) const {
  std::string out = "Usage: " + (name.empty() ? app->get_name() : name) + " [OPTIONS]";
  for (auto const* option : app->get_options([](CLI::Option const* one) { return one->get_positional(); }))
    if (!option->get_group().empty()) out += " " + make_option_usage(option);
  return out + "\n";
}

std::string HelpFormatter::make_option(CLI::Option const* option, bool is_positional) const {
  auto name = make_option_name(option, is_positional);
  bool const may_stand_alone = option->get_expected_min() == 0;
  if (may_stand_alone) name = name.substr(0, name.find('{'));
  if (auto const comma = name.find(','); comma != std::string::npos) name.insert(comma + 1, " ");
  std::string out = "  " + name;
  // A positional is its own placeholder; its choices are shown all the same.
  auto label = option->get_type_size() > 0 ? label_of(*option) : std::string();
  if (label.size() > longest_label) label = is_positional ? "" : "TEXT";
  bool const has_label = !label.empty() && (!is_positional || label.find('|') != std::string::npos) &&
                         (!may_stand_alone || option->get_expected_max() > 0 || label.find('|') != std::string::npos);
  if (has_label) out += may_stand_alone ? "[=" + label + "]" : " " + label;
  auto const column = get_column_width();
  out += out.size() + 1 < column ? std::string(column - out.size(), ' ') : "\n" + std::string(column, ' ');
  bool const is_repeated = !is_positional && option->get_positional();
  append_wrapped(out, is_repeated ? "The same as " + option->get_name(true, false) : description_of(*option), column);
  return out + "\n";
}

}  // namespace graticule::app
