// SPDX-License-Identifier: BSD-3-Clause
#include "plan_file.hpp"

#include <graticule/repartition/detail/dtypes.hpp>

#include "options.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace graticule::bench {

namespace {

using Json = nlohmann::json;

/// Far beyond any grid, and sums of a few such numbers stay in 64 bits.
constexpr Index largest = Index(1) << 40;

/// A value of the file and where it stands: `ranks[1].kinds[0].source`.
class Node {
 public:
  Node(Json const& value, std::string const& file, std::string place)
      : value_(&value), file_(&file), place_(std::move(place)) {}

  [[noreturn]] void fail(std::string const& what) const {
    throw Error(Fault::input, "BadInput", *file_ + ": " + (place_.empty() ? "the plan" : place_) + " " + what);
  }
  [[nodiscard]] bool has(char const* key) const { return value_->is_object() && value_->contains(key); }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] Json const& json() const { return *value_; }
  [[nodiscard]] Node operator[](char const* key) const {
    if (!has(key)) fail("has no '" + std::string(key) + "'");
    return {(*value_)[key], *file_, place_.empty() ? key : place_ + "." + key};
  }
  [[nodiscard]] std::vector<Node> items() const {
    if (!value_->is_array()) fail("is not a list");
    std::vector<Node> nodes;
    for (auto const& item : *value_)
      nodes.emplace_back(item, *file_, place_ + "[" + std::to_string(nodes.size()) + "]");
    return nodes;
  }
  [[nodiscard]] std::vector<Node> items(std::size_t count, char const* of_what) const {
    auto nodes = items();
    if (nodes.size() != count)
      fail("has " + std::to_string(nodes.size()) + " elements, " + of_what + " " + std::to_string(count));
    return nodes;
  }
  [[nodiscard]] Index integer(Index lowest, Index highest) const {
    if (!value_->is_number_integer() || value_->get<double>() < double(lowest) ||
        value_->get<double>() > double(highest))
      fail("is " + value_->dump() + ", not an integer from " + std::to_string(lowest) + " to " +
           std::to_string(highest));
    return value_->get<Index>();
  }
  [[nodiscard]] std::string text() const {
    if (!value_->is_string()) fail("is not a text");
    return value_->get<std::string>();
  }
  /// Index of the text among `known`.
  template <std::size_t count>
  [[nodiscard]] std::size_t one_of(std::array<char const*, count> const& known) const {
    auto const found = std::find(known.begin(), known.end(), text());
    if (found == known.end()) fail("is '" + text() + "', which is not known");
    return std::size_t(found - known.begin());
  }
  /// `flag` of an object; false where it is not there.
  [[nodiscard]] bool flag(char const* key) const {
    if (!has(key)) return false;
    if (!(*value_)[key].is_boolean()) (*this)[key].fail("is neither true nor false");
    return (*value_)[key].get<bool>();
  }

 private:
  Json const* value_;
  std::string const* file_;
  std::string place_;
};

Indices read_indices(std::vector<Node> const& nodes, Index lowest) {
  Indices result;
  for (auto const& node : nodes) result.push_back(node.integer(lowest, largest));
  return result;
}

Box read_box(Node const& node, int ndim) {
  auto const ends = node.items(2, "a box has");
  std::array<Indices, 2> corners;
  for (std::size_t e = 0; e < 2; ++e)
    corners[e] = read_indices(ends[e].items(std::size_t(ndim), "the axes are"), -largest);
  return {corners[0], corners[1]};
}

double read_fill(Node const& node) {
  if (node.json().is_number()) return node.json().get<double>();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr std::array<char const*, 3> names{"nan", "inf", "-inf"};
  return std::array{std::nan(""), infinity, -infinity}[node.one_of(names)];
}

AxisMaps read_maps(Node const& node, int ndim) {
  AxisMaps maps{};
  auto const rows = node.items(std::size_t(ndim), "the axes are");
  for (std::size_t a = 0; a < rows.size(); ++a) {
    auto const words = rows[a].items(3, "an axis' map has");
    maps[a] = {int(words[0].integer(0, ndim - 1)), int(words[1].integer(-1, 1)), words[2].integer(-largest, largest)};
    for (std::size_t before = 0; before < a; ++before)
      if (maps[before].source_axis == maps[a].source_axis) words[0].fail("names a source axis twice");
  }
  return maps;
}

Piece read_piece(Node const& node, Box const& needed) {
  Piece piece;
  piece.box = read_box(node["box"], needed.ndim());
  if (!needed.contains(piece.box)) node["box"].fail("leaves the needed box");
  piece.filled = node.has("fill");
  if (piece.filled) {
    piece.fill = read_fill(node["fill"]);
    return piece;
  }
  piece.maps = read_maps(node["maps"], needed.ndim());
  piece.odd_folds = node.flag("odd_folds");
  piece.negated = node.flag("negated");
  return piece;
}

PlanFile::Kind read_kind(Node const& node, Box const& owned) {
  int const ndim = owned.ndim();
  PlanFile::Kind kind;
  kind.source = read_box(node["source"], ndim);
  if (!kind.source.contains(owned)) node["source"].fail("does not hold the owned box");
  for (auto const& target_node : node["targets"].items()) {
    auto& target = kind.targets.emplace_back(PlanFile::FilledTarget{read_box(target_node["box"], ndim), {}});
    for (auto const& needed_node : target_node["needed"].items()) {
      auto& needed = target.needed.emplace_back(PlanFile::Needed{read_box(needed_node["box"], ndim), {}});
      if (!target.box.contains(needed.box)) needed_node["box"].fail("leaves the target");
      for (auto const& piece : needed_node["pieces"].items()) needed.pieces.push_back(read_piece(piece, needed.box));
    }
  }
  return kind;
}

void read_ranks(Node const& node, PlanFile& file) {
  Box const global = Box::from_extents(file.extents);
  for (auto const& rank_node : node.items()) {
    PlanFile::Rank rank{read_box(rank_node["owned"], file.extents.size()), {}};
    if (!global.contains(rank.owned)) rank_node["owned"].fail("leaves the grid");
    for (auto const& kind : rank_node["kinds"].items()) rank.kinds.push_back(read_kind(kind, rank.owned));
    if (!file.ranks.empty()) {
      auto const& first = file.ranks.front().kinds;
      auto const kinds = rank_node["kinds"].items(first.size(), "those of rank 0 are");
      for (std::size_t k = 0; k < kinds.size(); ++k)
        (void)kinds[k]["targets"].items(first[k].targets.size(), "those of rank 0 are");
    }
    file.ranks.push_back(std::move(rank));
  }
  if (file.ranks.empty()) node.fail("is empty");
}

DType read_dtype(Node const& node) {
  for (DType const dtype : graticule::detail::enum_values<DType>)
    if (to_string(dtype) == node.text()) return dtype;
  node.fail("is '" + node.text() + "', which is not known");
}

void read_fields(Node const& call, PlanFile& file) {
  if (call.is_null()) {
    for (int k = 0; k < file.num_kinds(); ++k) file.fields.push_back({k, DType::f64, {}, Parity::even});
    return;
  }
  constexpr std::array<char const*, 2> parities{"even", "odd"};
  for (auto const& node : call["fields"].items()) {
    auto const batch = node["batch"].items();
    if (int(batch.size()) > max_ndim - file.extents.size()) node["batch"].fail("has too many axes");
    file.fields.push_back({int(node["kind"].integer(0, file.num_kinds() - 1)), read_dtype(node["dtype"]),
                           read_indices(batch, 0), Parity(node["parity"].one_of(parities))});
  }
}

/// `line 3, column 14` of the character before which reading stopped.
std::string place_of(std::string const& text, std::size_t byte) {
  auto const end = text.begin() + std::ptrdiff_t(std::min(byte > 0 ? byte - 1 : 0, text.size()));
  auto const last = std::find(std::make_reverse_iterator(end), text.rend(), '\n').base();
  return "line " + std::to_string(1 + std::count(text.begin(), end, '\n')) + ", column " +
         std::to_string(1 + (end - last));
}

/// A file takes 60 bytes of memory per value, and its ranks and fields are looked at one with another.
constexpr std::size_t most_values = 10'000'000;
constexpr std::size_t most_fields = 4096;

/// The file as JSON. Ranks and fields beyond the limits are counted, but not kept.
Json read_json(std::string const& text, std::string const& name, int num_ranks) {
  std::size_t num_values = 0;
  std::size_t ranks = 0;
  std::size_t fields = 0;
  std::array<std::string, 3> keys;  // by depth: that of the value which is read
  auto const count = [&](int at, Json::parse_event_t event, Json& value) {
    auto const depth = std::size_t(at);
    if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end) return true;
    if (event == Json::parse_event_t::key) {
      if (depth < keys.size()) keys[depth] = value.get<std::string>();
      return true;
    }
    if (++num_values > most_values)
      throw Error(Fault::input, "BadInput",
                  name + " holds more than " + std::to_string(most_values) + " values, the most that a replay takes");
    bool const is_rank = depth == 2 && keys[1] == "ranks";
    bool const is_field = depth == 3 && keys[1] == "call" && keys[2] == "fields";
    if (event != Json::parse_event_t::value && depth + 1 < keys.size()) keys[depth + 1].clear();
    ranks += is_rank ? 1 : 0;
    fields += is_field ? 1 : 0;
    return !(is_rank && ranks > std::size_t(num_ranks)) && !(is_field && fields > most_fields);
  };
  Json json;
  try {
    json = Json::parse(text, count);
  } catch (Json::parse_error const& error) {
    throw Error(
        Fault::input, "BadInput",
        name + ", " + place_of(text, error.byte) + ": not JSON from here on; the file is damaged or incomplete");
  }
  if (ranks > 0 && ranks != std::size_t(num_ranks))
    refuse(name + " is a plan of " + std::to_string(ranks) + " ranks, this run has " + std::to_string(num_ranks));
  if (fields > most_fields)
    throw Error(Fault::input, "BadInput",
                name + ": call.fields has " + std::to_string(fields) + " elements; a replay takes at most " +
                    std::to_string(most_fields));
  return json;
}

}  // namespace

PlanFile parse_plan(std::string const& text, std::string const& name, int num_ranks) {
  auto json = read_json(text, name, num_ranks);
  PlanFile file;
  file.name = name;
  Node const root(json, name, "");
  if (!root.has("format") || root["format"].json() != "graticule-plan")
    root.fail("has no \"format\": \"graticule-plan\"; files of plans are written under GRATICULE_DUMP");
  (void)root["version"].integer(1, 1);
  file.fingerprint = root["fingerprint"].text();
  constexpr std::array<char const*, 2> afters{"zero", "keep"};
  file.after_adjoint = AfterAdjoint(root["after_adjoint"].one_of(afters));
  auto const extents = root["extents"].items();
  if (extents.empty() || extents.size() > std::size_t(max_ndim)) root["extents"].fail("has none or too many axes");
  file.extents = read_indices(extents, 0);
  read_ranks(root["ranks"], file);
  read_fields(root["call"], file);
  file.tables = std::move(json["ranks"]);
  return file;
}

PullDescription description(PlanFile const& file, int rank) {
  std::vector<Box> owned;
  for (auto const& each : file.ranks) owned.push_back(each.owned);
  PullDescription result{Layout::from_boxes(file.extents, owned), {}, 0, file.after_adjoint};
  for (auto const& kind : file.ranks[std::size_t(rank)].kinds) {
    PullKind pull{kind.source, {}, {}};
    for (auto const& target : kind.targets) {
      auto& needed = pull.targets.emplace_back(Target{target.box, {}}).needed;
      for (auto const& each : target.needed) needed.push_back(each.box);
    }
    pull.map = [kind](Box const& needed) {
      for (auto const& target : kind.targets)
        for (auto const& each : target.needed)
          if (each.box == needed) return each.pieces;
      return std::vector<Piece>{};
    };
    result.kinds.push_back(std::move(pull));
  }
  return result;
}

}  // namespace graticule::bench
