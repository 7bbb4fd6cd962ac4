// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <graticule/app/numbers.hpp>
#include <graticule/halo/detail/edges.hpp>
#include <graticule/partition/cuts_file.hpp>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string_view>

namespace graticule::info {

namespace {

[[noreturn]] void refuse(std::string const& option, std::string const& text, std::string const& expected) {
  throw Error(Fault::usage, "BadOption", option + " " + text + " is not " + expected);
}

std::vector<std::string> split(std::string const& text, char separator) {
  std::vector<std::string> parts(1);
  for (char const c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

/// Two numbers separated by `x`, each at least `least`.
std::optional<Indices> two_numbers(std::string const& text, Index least) {
  auto const numbers = app::two_counts_from(text);
  return numbers && std::min((*numbers)[0], (*numbers)[1]) >= least ? numbers : std::nullopt;
}

Edge parse_edge(std::string const& name, std::string const& text, Index num_rows) {
  if (name == "pole") return num_rows % 2 == 1 ? Edge::pole_row : Edge::pole_face;
  if (name == "zero") return Edge::constant;
  for (Edge const edge : detail::enum_values<Edge>)
    if (name == detail::enum_name(edge)) return edge;
  refuse("--boundary", text,
         "one rule for latitude and one for longitude; rules are pole, zero, " + detail::enum_names<Edge>());
}

Cuts parse_list(std::string const& list, Index extent, char const* cells) {
  std::vector<Index> sizes;
  Index sum = 0;
  for (auto const& part : split(list, ',')) {
    auto const size = app::count_from(part);
    if (!size)
      throw Error(Fault::usage, "BadCuts",
                  "--cuts: '" + part + "' is not a number of " + cells +
                      "; give balanced, area, file:PATH or a list such as 61,60,60,60");
    sizes.push_back(*size);
    if (__builtin_add_overflow(sum, *size, &sum)) sum = std::numeric_limits<Index>::max();
  }
  if (sum != extent)
    throw Error(Fault::usage, "BadCuts",
                "--cuts sums to " + std::to_string(sum) + " " + cells + ", the grid has " + std::to_string(extent));
  return Cuts(sizes);
}

CutChoice read_choice(Comm const& comm, std::string const& path, Indices const& extents) {
  auto const cuts = read_cuts(comm, path);
  if (cuts.size() > 2)
    throw Error(Fault::input, "BadInput",
                path + " has cuts of " + std::to_string(cuts.size()) + " axes, the grid has 2");
  CutChoice choice;
  for (std::size_t a = 0; a < cuts.size(); ++a) {
    if (cuts[a].extent() != extents[int(a)])
      throw Error(Fault::input, "BadInput",
                  path + " cuts " + std::to_string(cuts[a].extent()) + (a == 0 ? " rows" : " columns") +
                      ", the grid has " + std::to_string(extents[int(a)]));
    choice.given[a] = cuts[a];
  }
  return choice;
}

}  // namespace

Indices parse_extents(std::string const& option, std::string const& text, Index least) {
  auto const numbers = two_numbers(text, least);
  if (!numbers || (*numbers)[0] > (Index(1) << 40) || (*numbers)[1] > (Index(1) << 40))
    refuse(option, text, option == "--grid" ? "LATITUDESxLONGITUDES such as 721x1440" : "ROWSxCOLUMNS such as 8x8");
  return *numbers;
}

Indices parse_partition(std::string const& text) {
  if (text == "auto") return {0, 0};
  auto const numbers = two_numbers(text, 0);
  if (!numbers || (*numbers)[0] > (1 << 24) || (*numbers)[1] > (1 << 24))
    throw Error(Fault::usage, "BadOption", "--partition " + text + " is neither auto nor ROWSxCOLUMNS such as 4x1");
  return *numbers;
}

int total_ranks(Indices const& partition, int num_ranks, std::string const& text) {
  Index const product = partition[0] * partition[1];
  if (product > (1 << 24)) throw Error(Fault::usage, "BadOption", "--partition " + text + " has too many ranks");
  if (num_ranks != 0 && product != 0 && product != num_ranks)
    throw Error(Fault::usage, "BadOption",
                "--partition " + text + " needs " + std::to_string(product) + " ranks, --ranks is " +
                    std::to_string(num_ranks));
  return num_ranks != 0 ? num_ranks : int(product);
}

std::vector<Width> parse_widths(std::string const& text) {
  std::vector<Width> widths;
  for (auto const& part : split(text, 'x')) {
    std::vector<Index> sides;
    for (auto const& side : split(part, ':'))
      if (auto const number = app::count_from(side); number && *number <= (Index(1) << 30)) sides.push_back(*number);
    if (sides.size() != split(part, ':').size() || sides.size() > 2) sides.clear();
    if (sides.empty()) refuse("--halo", text, "ROWSxCOLUMNS such as 1x1, or 2:1x1 for two sides");
    widths.push_back({sides.front(), sides.back()});
  }
  if (widths.size() != 2) refuse("--halo", text, "ROWSxCOLUMNS such as 1x1, or 2:1x1 for two sides");
  return widths;
}

Boundary parse_boundary(std::string const& text, Indices const& extents) {
  auto const rules = split(text, ',');
  Boundary boundary;
  bool has_fold = false;
  for (auto const& rule : rules) {
    auto const sides = split(rule, ':');
    AxisBoundary axis;
    axis.lower = parse_edge(sides.front(), text, extents[0]);
    axis.upper = parse_edge(sides.back(), text, extents[0]);
    has_fold = has_fold || is_fold(axis.lower) || is_fold(axis.upper);
    if (sides.size() > 2) static_cast<void>(parse_edge("", text, 0));
    boundary.axes.push_back(axis);
  }
  if (rules.size() != 2) static_cast<void>(parse_edge("", text, 0));
  if (has_fold) boundary.longitude_axis = 1;
  return boundary;
}

CutChoice parse_cut_choice(Comm const& comm, std::string const& text, Indices const& extents) {
  CutChoice choice;
  if (text == "balanced") return choice;
  if (text == "area") {
    choice.by_area = true;
    return choice;
  }
  if (text.starts_with("file:")) return read_choice(comm, text.substr(5), extents);
  auto const lists = split(text, 'x');
  if (lists.size() > 2) throw Error(Fault::usage, "BadCuts", "--cuts " + text + " has more than two axes");
  choice.given[0] = parse_list(lists[0], extents[0], "rows");
  if (lists.size() == 2) choice.given[1] = parse_list(lists[1], extents[1], "columns");
  return choice;
}

std::string to_text(Cuts const& cuts) {
  std::string text;
  for (int part = 0; part < cuts.num_parts(); ++part) {
    if (cuts.num_parts() > 16 && part == 8) {
      text += ",...";
      part = cuts.num_parts() - 4;
    }
    text += (part > 0 ? "," : "") + std::to_string(cuts.size(part));
  }
  return text;
}

std::string to_text(double value) {
  std::ostringstream text;
  text.precision(9);
  text << value;
  return text.str();
}

}  // namespace graticule::info
