// SPDX-License-Identifier: BSD-3-Clause
#include "graph/graph_reader.hpp"

#include "graph/nodes.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

// A tensor has few axes, and subgraphs contain few subgraphs; files that say otherwise are damaged.
constexpr std::size_t max_axes = 64;
constexpr int max_depth = 8;

Extent read_extent(Json const& value, std::string_view place) {
  auto const [kind, content] = alternative(value, place);
  if (kind == "as_int") {
    return {as_integer(content, place), {}};
  }
  if (kind != "as_expr") {
    malformed(place, "'" + kind + "' is not a size");
  }
  Extent extent{0, text(content, "expr_str", place)};
  if (extent.expression.empty()) {
    malformed(place, "the expression of a size is empty");
  }
  auto const hint = content.find("hint");
  if (hint != content.end() && hint->is_object() && hint->contains("as_int")) {
    extent.value = integer(*hint, "as_int", place);
  }
  return extent;
}

std::vector<Extent> read_extents(Json const& object, char const* key, std::string_view place) {
  Json const& values = list(object, key, place);
  if (values.size() > max_axes) {
    malformed(place, "a tensor has " + std::to_string(values.size()) + " axes");
  }
  std::vector<Extent> extents;
  for (Json const& value : values) {
    extents.push_back(read_extent(value, place));
    if (extents.back().value < 0) {
      malformed(place, std::string("a negative number is among the ") + key);
    }
  }
  return extents;
}

std::vector<Node::Module> read_modules(std::string_view stack) {
  std::vector<Node::Module> frames;
  while (!stack.empty()) {
    auto const end = stack.find(';');
    std::string_view const entry = stack.substr(0, end);
    stack = end == std::string_view::npos ? std::string_view() : stack.substr(end + 1);
    auto const first = entry.find(',');
    auto const second = first == std::string_view::npos ? first : entry.find(',', first + 1);
    if (second != std::string_view::npos) {
      frames.push_back(
          {std::string(entry.substr(first + 1, second - first - 1)), std::string(entry.substr(second + 1))});
    }
  }
  return frames;
}

// Of the notes of users and tools, which are the text of an object.
std::optional<std::int64_t> read_region(std::string const& custom, std::string_view place) {
  Json const notes = Json::parse(custom, nullptr, /*allow_exceptions=*/false);
  char const* const key = "graticule_recompute";
  return notes.is_object() && notes.contains(key) ? std::optional(integer(notes, key, place)) : std::nullopt;
}

Device read_device(Json const& value, std::string_view place) {
  Device device{text(value, "type", place), std::nullopt};
  auto const index = value.find("index");
  if (index != value.end() && !index->is_null()) {
    device.index = as_integer(*index, place);
  }
  return device;
}

MemoryFormat read_memory_format(Json const& value, std::string_view place) {
  std::int64_t const number = as_integer(value, place);
  if (number < 1 || number > 4) {
    malformed(place, "memory format " + std::to_string(number) + " does not exist");
  }
  return static_cast<MemoryFormat>(number);
}

template <class T, class Read>
std::vector<T> read_list(Json const& values, Read const& read, std::string_view place) {
  if (!values.is_array()) {
    malformed(place, "a list is expected");
  }
  std::vector<T> result;
  result.reserve(values.size());
  for (Json const& value : values) {
    result.push_back(read(value, place));
  }
  return result;
}

/// One tensor or a list, with each tensor as `read(json)` gives it; nothing for another kind.
template <class Read>
std::optional<Argument> read_tensors(std::string_view kind, Json const& value, Read const& read,
                                     std::string_view place) {
  auto const tensor = [&](Json const& one, std::string_view /*place*/) -> TensorRef { return read(one); };
  if (kind == "as_tensor") {
    return read(value);
  }
  if (kind == "as_tensors") {
    return read_list<TensorRef>(value, tensor, place);
  }
  if (kind == "as_optional_tensors") {
    auto const optional = [&](Json const& one, std::string_view) -> std::optional<TensorRef> {
      auto const held = alternative(one, place);
      return held.name == "as_tensor" ? std::optional(read(held.value)) : std::nullopt;
    };
    return read_list<std::optional<TensorRef>>(value, optional, place);
  }
  return std::nullopt;
}

}  // namespace

Dtype read_dtype(Json const& value, std::string_view place) {
  std::int64_t const number = as_integer(value, place);
  if ((number < 1 || number > 13) && number != 28) {
    malformed(place, "element type " + std::to_string(number) + " is not known here");
  }
  return static_cast<Dtype>(number);
}

TensorMeta read_tensor_meta(Json const& value, std::string_view place) {
  TensorMeta meta;
  meta.dtype = read_dtype(member(value, "dtype", place), place);
  meta.sizes = read_extents(value, "sizes", place);
  meta.strides = read_extents(value, "strides", place);
  if (meta.strides.size() != meta.sizes.size()) {
    malformed(place,
              std::to_string(meta.sizes.size()) + " sizes and " + std::to_string(meta.strides.size()) + " strides");
  }
  meta.storage_offset = read_extent(member(value, "storage_offset", place), place);
  if (meta.storage_offset.value < 0) {
    malformed(place, "the storage offset is negative");
  }
  meta.requires_grad = as_boolean(member(value, "requires_grad", place), place);
  std::int64_t const strided = 7;
  if (integer(value, "layout", place) != strided) {
    malformed(place, "the tensor is not strided (layout " + member(value, "layout", place).dump() + ")");
  }
  return meta;
}

GraphReader::GraphReader(Json const& graph, std::string place, int depth)
    : json_(graph), place_(std::move(place)), depth_(depth) {
  if (depth > max_depth) {
    malformed(place_, "subgraphs are nested more than " + std::to_string(max_depth) + " deep");
  }
}

namespace {

/// Whether a decomposition has made the node from this operator, by the notes of PyTorch 2.6 and later.
bool came_of(Json const& metadata, std::string_view function, std::string_view target, std::string_view place) {
  auto const has = [&](char const* note, std::string_view word) {
    return metadata.contains(note) && text(metadata, note, place).find(word) != std::string::npos;
  };
  return has("torch_fn", function) || has("from_node", target);
}

template <class Arguments>
void replace_tensors(Arguments& arguments, std::map<ValueId, ValueId> const& ids) {
  visit_tensors(arguments, [&](ValueId& id) {
    if (auto const found = ids.find(id); found != ids.end()) id = found->second;
  });
}

}  // namespace

void GraphReader::read() {
  for (Json const& input : list(json_, "inputs", place_)) {
    graph_.inputs.push_back(definition(input, -1, place_ + ", inputs"));
  }
  for (Json const& node : list(json_, "nodes", place_)) {
    read_node(node);
  }
  for (Json const& output : list(json_, "outputs", place_)) {
    graph_.outputs.push_back(argument(output, place_ + ", outputs"));
  }
  detach_parts();
}

// The part of a node: the name of the operator that ran it as a graph, which PyTorch 2.13 notes in the file.
std::string part_of(Json const& metadata, std::string_view place) {
  if (!metadata.contains("from_node")) return {};
  auto const note = text(metadata, "from_node", place);
  auto const end = note.find("\", \"target\": \"wrap_with_set_grad_enabled\"");
  auto const begin = end == std::string::npos ? end : note.rfind('"', end - 1);
  return begin == std::string::npos ? std::string() : note.substr(begin + 1, end - begin - 1);
}

// Behind an autograd Function whose forward has a part within `torch.no_grad()`, torch.export (2.13) takes all that
// follows for such a part: two of them, one after the other, at the end of the graph.
bool GraphReader::ends_behind_function() const {
  auto const& last = parts_.empty() ? std::string() : parts_.back();
  if (depth_ > 0 || last.empty()) return false;
  auto const before = std::find_if(parts_.rbegin(), parts_.rend(), [&](auto const& part) { return part != last; });
  return before != parts_.rend() && !before->empty();
}

// PyTorch's decompositions run what was within `torch.no_grad()` as what was not. What leaves such a part gets a node
// that detaches it, and keeps its value's id; within the part it has another. Where torch.export has lost gradients,
// no result has one: a backward would be wrong without a word.
void GraphReader::detach_parts() {
  std::set<ValueId> inner;
  std::set<ValueId> leaving;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    Node const& node = graph_.nodes[i];
    if (without_gradients_[i] != 0 && node.target != "aten.detach.default") {
      visit_tensors(node.outputs, [&](ValueId id) { inner.insert(id); });
    }
    if (without_gradients_[i] == 0) visit_tensors(node.inputs, [&](ValueId id) { leaving.insert(id); });
  }
  auto const results = tensors_of(graph_.outputs);
  leaving.insert(results.begin(), results.end());
  bool const are_lost = ends_behind_function();
  if (are_lost)
    std::ranges::copy_if(results, std::inserter(inner, inner.end()),
                         [&](ValueId id) { return graph_.value(id).producer >= 0; });
  std::erase_if(leaving, [&](ValueId id) { return !inner.contains(id); });
  if (leaving.empty()) return;
  Graph whole;
  whole.values = std::move(graph_.values);
  whole.inputs = std::move(graph_.inputs);
  whole.outputs = std::move(graph_.outputs);
  std::map<ValueId, ValueId> within;
  for (ValueId const id : leaving) {
    within[id] = static_cast<ValueId>(whole.values.size());
    whole.values.push_back(whole.value(id));
    whole.values.back().name += "_within_no_grad";
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    Node node = std::move(graph_.nodes[i]);
    auto const made = tensors_of(node.outputs);
    if (without_gradients_[i] != 0 || are_lost) {
      replace_tensors(node.inputs, within);
      replace_tensors(node.outputs, within);
    }
    Node detach{.target = "aten.detach.default",
                .name = node.name,
                .inputs = {},
                .outputs = {},
                .modules = node.modules,
                .stack_trace = node.stack_trace,
                .casts = {},
                .region = node.region};
    append_node(whole, std::move(node));
    for (ValueId const id : made) {
      if (!leaving.contains(id)) continue;
      detach.inputs = {NamedArgument{.name = "self", .value = TensorRef{within.at(id)}}};
      detach.outputs = {TensorRef{id}};
      append_node(whole, detach);
    }
  }
  graph_ = std::move(whole);
}

void GraphReader::read_node(Json const& json) {
  auto const id = static_cast<NodeId>(graph_.nodes.size());
  std::string place = place_ + ", node " + std::to_string(id);
  Node node;
  node.target = text(json, "target", place);
  std::string_view const prefix = "torch.ops.";
  if (node.target.starts_with(prefix)) {
    node.target.erase(0, prefix.size());
  }
  place += " (" + node.target + ")";
  auto const name = json.find("name");
  if (name != json.end() && !name->is_null()) {
    node.name = as_text(*name, place);
  }
  for (Json const& input : list(json, "inputs", place)) {
    NamedArgument argument_read{text(input, "name", place), {}, false};
    argument_read.value = argument(member(input, "arg", place), place + ", argument '" + argument_read.name + "'");
    auto const kind = input.find("kind");
    argument_read.keyword = kind != input.end() && *kind == 2;
    node.inputs.push_back(std::move(argument_read));
  }
  for (Json const& output : list(json, "outputs", place)) {
    node.outputs.push_back(definition(output, id, place + ", outputs"));
  }
  Json const& metadata = table(json, "metadata", place);
  if (metadata.contains("nn_module_stack")) {
    node.modules = read_modules(text(metadata, "nn_module_stack", place));
  }
  if (metadata.contains("stack_trace")) {
    node.stack_trace = text(metadata, "stack_trace", place);
  }
  if (metadata.contains("custom")) {
    node.region = read_region(text(metadata, "custom", place), place);
  }
  if (node.target == "aten.alias.default" && came_of(metadata, ".detach", "aten.detach.default", place)) {
    node.target = "aten.detach.default";
  }
  without_gradients_.push_back(
      char(!node.target.starts_with("higher_order.") &&
           came_of(metadata, "wrap_with_set_grad_enabled;", "\"target\": \"wrap_with_set_grad_enabled\"", place)));
  auto const* const mode = node.target == "higher_order.wrap_with_set_grad_enabled" && !node.inputs.empty()
                               ? std::get_if<bool>(&node.inputs[0].value)
                               : nullptr;
  parts_.push_back(mode && !*mode ? place : without_gradients_.back() != 0 ? part_of(metadata, place) : std::string());
  graph_.nodes.push_back(std::move(node));
}

ValueId GraphReader::define(std::string const& name, Value::Kind kind, NodeId producer, std::string_view place) {
  auto const id = static_cast<ValueId>(graph_.values.size());
  if (!ids_.emplace(name, id).second) {
    malformed(place, "the value '" + name + "' is defined twice");
  }
  Value value{name, kind, {}, {}, producer};
  std::string const meta_place = std::string(place) + ", value '" + name + "'";
  if (kind == Value::Kind::tensor) {
    value.tensor =
        read_tensor_meta(member(table(json_, "tensor_values", place_), name.c_str(), meta_place), meta_place);
  } else if (kind == Value::Kind::integer) {
    value.number = read_extent(member(table(json_, "sym_int_values", place_), name.c_str(), meta_place), meta_place);
  }
  graph_.values.push_back(std::move(value));
  return id;
}

ValueId GraphReader::defined(std::string const& name, std::string_view place) const {
  auto const found = ids_.find(name);
  if (found == ids_.end()) {
    malformed(place, "the value '" + name + "' is used before it is defined");
  }
  return found->second;
}

Argument GraphReader::definition(Json const& json, NodeId producer, std::string_view place) {
  static std::map<std::string, Value::Kind, std::less<>> const numbers{
      {"as_sym_int", Value::Kind::integer}, {"as_sym_bool", Value::Kind::boolean}, {"as_sym_float", Value::Kind::real}};
  auto const [kind, value] = alternative(json, place);
  auto const tensor = [&](Json const& one) {
    return TensorRef{define(text(one, "name", place), Value::Kind::tensor, producer, place)};
  };
  if (auto tensors = read_tensors(kind, value, tensor, place)) {
    return *std::move(tensors);
  }
  if (kind == "as_optional_tensor") {
    return definition(value, producer, place);
  }
  auto const number = numbers.find(kind);
  if (number != numbers.end() && value.is_object() && value.contains("as_name")) {
    return SymbolRef{define(text(value, "as_name", place), number->second, producer, place)};
  }
  return argument(json, place);
}

Argument GraphReader::symbolic(Json const& value, std::string_view place) const {
  auto const held = alternative(value, place);
  if (held.name == "as_name") {
    ValueId const id = defined(as_text(held.value, place), place);
    if (graph_.value(id).kind == Value::Kind::tensor) {
      malformed(place, "the tensor '" + graph_.value(id).name + "' is used as a number");
    }
    return SymbolRef{id};
  }
  if (held.name == "as_int") {
    return as_integer(held.value, place);
  }
  if (held.name == "as_bool") {
    return as_boolean(held.value, place);
  }
  if (held.name == "as_float") {
    return as_real(held.value, place);
  }
  malformed(place, "'" + held.name + "' is not a number");
}

Integers GraphReader::integers(Json const& value, std::string_view place) const {
  auto const read = [&](Json const& one, std::string_view) -> Integers::value_type {
    Argument const held = symbolic(one, place);
    if (auto const* symbol = std::get_if<SymbolRef>(&held)) {
      return *symbol;
    }
    if (auto const* number = std::get_if<std::int64_t>(&held)) {
      return *number;
    }
    malformed(place, "a list of integers is expected");
  };
  return read_list<Integers::value_type>(value, read, place);
}

Argument GraphReader::argument(Json const& json, std::string_view place) const {
  using Read = Argument (*)(GraphReader const& reader, Json const& value, std::string_view place);
  static std::map<std::string, Read, std::less<>> const kinds{
      {"as_none", [](auto&, auto&, auto) -> Argument { return None{}; }},
      {"as_bool", [](auto&, auto& value, auto at) -> Argument { return as_boolean(value, at); }},
      {"as_int", [](auto&, auto& value, auto at) -> Argument { return as_integer(value, at); }},
      {"as_float", [](auto&, auto& value, auto at) -> Argument { return as_real(value, at); }},
      {"as_string", [](auto&, auto& value, auto at) -> Argument { return as_text(value, at); }},
      {"as_complex",
       [](auto&, auto& value, auto at) -> Argument {
         return std::complex<double>(as_real(member(value, "real", at), at), as_real(member(value, "imag", at), at));
       }},
      {"as_scalar_type", [](auto&, auto& value, auto at) -> Argument { return read_dtype(value, at); }},
      {"as_memory_format", [](auto&, auto& value, auto at) -> Argument { return read_memory_format(value, at); }},
      {"as_layout", [](auto&, auto& value, auto at) -> Argument { return StorageLayout{as_integer(value, at)}; }},
      {"as_device", [](auto&, auto& value, auto at) -> Argument { return read_device(value, at); }},
      {"as_sym_int", [](auto& reader, auto& value, auto at) -> Argument { return reader.symbolic(value, at); }},
      {"as_sym_bool", [](auto& reader, auto& value, auto at) -> Argument { return reader.symbolic(value, at); }},
      {"as_sym_float", [](auto& reader, auto& value, auto at) -> Argument { return reader.symbolic(value, at); }},
      {"as_sym_ints", [](auto& reader, auto& value, auto at) -> Argument { return reader.integers(value, at); }},
      {"as_optional_tensor", [](auto& reader, auto& value, auto at) { return reader.argument(value, at); }},
      {"as_graph", [](auto& reader, auto& value, auto at) { return reader.subgraph(value, at); }},
      {"as_ints", [](auto&, auto& v, auto at) -> Argument { return read_list<std::int64_t>(v, as_integer, at); }},
      {"as_floats", [](auto&, auto& v, auto at) -> Argument { return read_list<double>(v, as_real, at); }},
      {"as_bools", [](auto&, auto& v, auto at) -> Argument { return read_list<bool>(v, as_boolean, at); }},
      {"as_strings", [](auto&, auto& v, auto at) -> Argument { return read_list<std::string>(v, as_text, at); }}};
  auto const [kind, value] = alternative(json, place);
  if (auto const found = kinds.find(kind); found != kinds.end()) {
    return found->second(*this, value, place);
  }
  auto const tensor = [&](Json const& one) {
    ValueId const id = defined(text(one, "name", place), place);
    if (graph_.value(id).kind != Value::Kind::tensor) {
      malformed(place, "the number '" + graph_.value(id).name + "' is used as a tensor");
    }
    return TensorRef{id};
  };
  return read_tensors(kind, value, tensor, place).value_or(Unsupported{kind});
}

Argument GraphReader::subgraph(Json const& value, std::string_view place) const {
  std::string const& name = text(value, "name", place);
  GraphReader reader(member(value, "graph", place), std::string(place) + ", subgraph '" + name + "'", depth_ + 1);
  reader.read();
  return SubgraphRef{name, std::make_shared<Graph const>(std::move(reader).take())};
}

}  // namespace graticule::program::detail
