// SPDX-License-Identifier: BSD-3-Clause
#include "shard/local_builder.hpp"

#include <graticule/partition/error.hpp>

#include "graph/visit.hpp"
#include "graph/words.hpp"
#include "layout/overwritten.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::string_view base_of(std::string_view target) { return target.substr(0, target.rfind('.')); }

TensorMeta meta_of(Shape const& shape, Dtype dtype) {
  TensorMeta meta;
  meta.dtype = dtype;
  for (std::int64_t const extent : shape) {
    meta.sizes.push_back({extent, {}});
  }
  return meta;
}

// The probability with which the operator drops values in training; 0 for all others.
double drop_probability(PlannedNode const& node) {
  bool const dropout = node.name() == "dropout" || node.name() == "native_dropout";
  Argument const* const given = node.node.input(dropout ? "p" : "dropout_p");
  auto const* const p = given == nullptr ? nullptr : std::get_if<double>(given);
  return p != nullptr && *p > 0 && (!dropout || node.shapes.flag("train", true)) ? *p : 0;
}

std::vector<std::int64_t> every_row(std::int64_t extent) {
  std::vector<std::int64_t> rows(at(extent));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

bool ascending_from(std::vector<std::int64_t> const& rows, std::int64_t first) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != first + static_cast<std::int64_t>(i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

NamedArgument tensor_input(std::string name, ValueId value) { return {std::move(name), TensorRef{value}, false}; }
NamedArgument input_of(std::string name, Argument value) { return {std::move(name), std::move(value), false}; }

void set_input(Node& node, std::string const& name, Argument value) {
  for (NamedArgument& input : node.inputs) {
    if (input.name == name) {
      input.value = std::move(value);
      return;
    }
  }
  node.inputs.push_back(input_of(name, std::move(value)));
}

LocalBuilder::LocalBuilder(Plan const& plan, Sizes const& sizes, Conversion const& conversion, int rank)
    : plan_(&plan), sizes_(&sizes), conversion_(&conversion), rank_(rank), overlaps_(find_overlaps(plan, sizes)) {}

ValueId LocalBuilder::new_value(Shape shape, Dtype dtype) {
  auto const id = static_cast<ValueId>(result_.graph.values.size());
  Value value;
  value.name = "local_" + std::to_string(id);
  value.tensor = meta_of(shape, dtype);
  result_.graph.values.push_back(std::move(value));
  result_.shapes.push_back(std::move(shape));
  return id;
}

ValueId LocalBuilder::emit(std::string const& target, Inputs inputs, Shape shape, Dtype dtype, Task task) {
  ValueId const id = new_value(std::move(shape), dtype);
  bool const convolves = std::holds_alternative<ConvTask>(task);
  Node node;
  node.target = target;
  node.inputs = std::move(inputs);
  node.outputs = {TensorRef{id}};
  if (current_ != nullptr) {
    node.name = current_->name;
    node.modules = current_->modules;
    node.stack_trace = current_->stack_trace;
    bool const attends = current_->target.starts_with("aten.scaled_dot_product_attention.");
    if (attends || convolves || base_of(current_->target) == base_of(target)) {
      node.casts = current_->casts;
    }
  }
  result_.graph.nodes.push_back(std::move(node));
  result_.tasks.push_back(std::move(task));
  result_.parts.push_back(part_);
  return id;
}

ValueId LocalBuilder::constant(torch::Tensor const& tensor, Dtype dtype) {
  result_.constants.push_back(tensor.to(conversion_->device));
  return new_value(tensor.sizes().vec(), dtype);
}

ValueId LocalBuilder::summed(ValueId source) {
  return emit("graticule.sum", {tensor_input("self", source)}, shape(source), dtype(source), SumTask{});
}

// What has no elements is nowhere, and goes nowhere.
ValueId LocalBuilder::emit_move(ValueId source, Shape const& target, MoveTask task) {
  if (num_elements(task.shape) == 0) {
    return emit("aten.reshape.default", {tensor_input("self", source), input_of("shape", target)}, target,
                dtype(source));
  }
  return emit("graticule.move", {tensor_input("self", source)}, target, dtype(source), std::move(task));
}

ValueId LocalBuilder::of_all_ranks(ValueId source) {
  Shape whole = shape(source);
  whole.insert(whole.begin(), 1);
  ValueId const own = emit("aten.unsqueeze.default", {tensor_input("self", source), input_of("dim", std::int64_t{0})},
                           whole, dtype(source));
  whole[0] = plan_->num_ranks;
  MoveTask task{whole, Cut::balanced(0, plan_->num_ranks, plan_->num_ranks), 0, {}};
  task.rows.assign(at(plan_->num_ranks), every_row(plan_->num_ranks));
  return emit_move(own, whole, std::move(task));
}

// Rows along the axis; the fill value is what lies beyond both ends, or else one more row.
ValueId LocalBuilder::arranged(ValueId source, std::int64_t axis, std::vector<std::int64_t> const& rows, double fill) {
  auto const first = std::ranges::find_if(rows, [](std::int64_t row) { return row >= 0; });
  auto const last = std::find_if(rows.rbegin(), rows.rend(), [](std::int64_t row) { return row >= 0; }).base();
  std::vector<std::int64_t> inner(first, std::max(first, last));
  std::int64_t lower = first - rows.begin();
  std::int64_t upper = first == rows.end() ? 0 : rows.end() - last;
  std::int64_t const extent = shape(source)[at(axis)];
  auto const pad = [&](ValueId tensor, std::int64_t below, std::int64_t above) {
    Shape padded = shape(tensor);
    padded[at(axis)] += below + above;
    std::vector<std::int64_t> widths(2 * (padded.size() - at(axis)), 0);
    widths[widths.size() - 2] = below;
    widths[widths.size() - 1] = above;
    return emit("aten.constant_pad_nd.default",
                {tensor_input("self", tensor), input_of("pad", widths), input_of("value", fill)}, padded,
                dtype(tensor));
  };
  if (std::ranges::find(inner, -1) != inner.end()) {
    source = pad(source, 0, 1);
    std::ranges::replace(inner, -1, extent);
  }
  if (!ascending_from(inner, 0) || static_cast<std::int64_t>(inner.size()) != shape(source)[at(axis)]) {
    Shape taken = shape(source);
    taken[at(axis)] = static_cast<std::int64_t>(inner.size());
    std::int64_t const start = inner.empty() ? 0 : inner.front();
    if (ascending_from(inner, start)) {
      source = emit("aten.slice.Tensor",
                    {tensor_input("self", source), input_of("dim", axis), input_of("start", start),
                     input_of("end", start + taken[at(axis)])},
                    taken, dtype(source));
    } else {
      ValueId const index = constant(torch::tensor(inner, torch::kLong), Dtype::i64);
      source = emit("aten.index_select.default",
                    {tensor_input("self", source), input_of("dim", axis), tensor_input("index", index)}, taken,
                    dtype(source));
    }
  }
  return lower + upper == 0 ? source : pad(source, lower, upper);
}

ValueId LocalBuilder::moved(ValueId value, Cut const& from, std::int64_t axis, Rows const& rows) {
  auto const key = std::tuple(value, from, axis, rows);
  if (auto const found = moves_.find(key); found != moves_.end()) {
    return found->second;
  }
  ValueId const source = copies_.at({value, from});
  Shape const& whole = plan_->shapes[at(value)];
  bool local = axis == from.axis;
  for (std::int64_t rank = 0; rank < plan_->num_ranks && local; ++rank) {
    auto const owned = from.owned_indices(whole[at(axis)], rank);
    local = std::ranges::includes(owned, rows[at(rank)]);
  }
  ValueId result = -1;
  if (local) {
    auto const owned = from.owned_indices(whole[at(axis)], rank_);
    std::vector<std::int64_t> places;
    for (std::int64_t const row : rows[at(rank_)]) {
      places.push_back(std::ranges::lower_bound(owned, row) - owned.begin());
    }
    result = arranged(source, axis, places, 0);
  } else {
    Shape target = whole;
    target[at(axis)] = static_cast<std::int64_t>(rows[at(rank_)].size());
    result = emit_move(source, target, {whole, from, axis, rows});
  }
  moves_[key] = result;
  return result;
}

ValueId LocalBuilder::placed(ValueId value, Placement const& from, Placement const& to) {
  auto const found = copies_.find({value, to});
  if (found != copies_.end()) {
    return found->second;
  }
  Shape const& whole = plan_->shapes[at(value)];
  ValueId result = -1;
  if (!from) {
    result = arranged(copies_.at({value, from}), to->axis, to->owned_indices(whole[at(to->axis)], rank_), 0);
  } else {
    std::int64_t const axis = to ? to->axis : from->axis;
    Rows rows;
    for (std::int64_t rank = 0; rank < plan_->num_ranks; ++rank) {
      rows.push_back(to ? to->owned_indices(whole[at(axis)], rank) : every_row(whole[at(axis)]));
    }
    result = moved(value, *from, axis, rows);
  }
  copies_[{value, to}] = result;
  return result;
}

ValueId LocalBuilder::read(NodePlan const& plan, std::size_t tensor, double fill) {
  Transfer const& transfer = plan.tensors[tensor];
  bool const of_own_rows =
      tensor == 0 && (overlaps_.convolutions.contains(plan.node) || overlaps_.paddings.contains(plan.node));
  if (!of_own_rows) {
    return fetched(transfer, fill);
  }
  auto const padded = padded_.find(transfer.value);
  return padded != padded_.end() ? padded->second : copies_.at({transfer.value, transfer.from});
}

ValueId LocalBuilder::fetched(Transfer const& transfer, double fill) {
  if (transfer.axis < 0) {
    return placed(transfer.value, transfer.from, transfer.to);
  }
  auto const key = std::tuple(transfer.value, transfer.axis, transfer.rows, fill);
  if (auto const found = pulled_.find(key); found != pulled_.end()) {
    return found->second;
  }
  auto const& own = transfer.rows[at(rank_)];
  ValueId result = -1;
  if (!transfer.from) {
    result = arranged(copies_.at({transfer.value, {}}), transfer.axis, own, fill);
  } else {
    Rows needed;
    for (auto const& rows : transfer.rows) {
      std::set<std::int64_t> unique(rows.begin(), rows.end());
      unique.erase(-1);
      needed.emplace_back(unique.begin(), unique.end());
    }
    ValueId const source = moved(transfer.value, *transfer.from, transfer.axis, needed);
    auto const& have = needed[at(rank_)];
    std::vector<std::int64_t> places;
    for (std::int64_t const row : own) {
      places.push_back(row < 0 ? -1 : std::ranges::lower_bound(have, row) - have.begin());
    }
    result = arranged(source, transfer.axis, places, fill);
  }
  pulled_[key] = result;
  return result;
}

std::int64_t LocalBuilder::number_of(ValueId symbol) const {
  Value const& value = plan_->graph.value(symbol);
  auto const number = value.kind == Value::Kind::integer ? (*sizes_)(value.number) : std::nullopt;
  if (!number) {
    throw Error(Fault::input, "RefusedProgram",
                "refused: " + current_->describe() + ": the number '" + value.name +
                    "' is not known before the network runs; export with real sizes");
  }
  return *number;
}

Argument LocalBuilder::local_argument(Argument const& argument, std::vector<ValueId> const& tensors,
                                      std::size_t& next) const {
  auto const take = [&] { return next < tensors.size() ? tensors[next++] : ValueId(-1); };
  if (std::holds_alternative<TensorRef>(argument)) {
    ValueId const id = take();
    return id < 0 ? Argument(None{}) : Argument(TensorRef{id});
  }
  if (auto const* symbol = std::get_if<SymbolRef>(&argument)) {
    return number_of(symbol->value);
  }
  if (auto const* list = std::get_if<Integers>(&argument)) {
    std::vector<std::int64_t> numbers;
    for (auto const& one : *list) {
      auto const* symbol = std::get_if<SymbolRef>(&one);
      numbers.push_back(symbol != nullptr ? number_of(symbol->value) : std::get<std::int64_t>(one));
    }
    return numbers;
  }
  Argument local = argument;
  visit_tensors(local, [&](ValueId& id) { id = take(); });
  return local;
}

Node LocalBuilder::localized(Node const& node, std::vector<ValueId> const& tensors) const {
  Node local = node;
  std::size_t next = 0;
  for (NamedArgument& input : local.inputs) {
    input.value = local_argument(input.value, tensors, next);
  }
  return local;
}

void LocalBuilder::place_inputs() {
  for (Argument const& input : plan_->graph.inputs) {
    auto const* tensor = std::get_if<TensorRef>(&input);
    if (tensor == nullptr) {
      result_.graph.inputs.push_back(std::holds_alternative<SymbolRef>(input) ? Argument(None{}) : input);
      continue;
    }
    Placement const& placement = plan_->inputs[at(tensor->value)];
    ValueId const id = new_value(local_shape(plan_->shapes[at(tensor->value)], placement, rank_),
                                 plan_->graph.value(tensor->value).tensor.dtype);
    copies_[{tensor->value, placement}] = id;
    result_.graph.inputs.push_back(TensorRef{id});
  }
}

void LocalBuilder::finish(PlannedNode const& node, ValueId value, std::size_t result) {
  copies_[{node.shapes.rule.results.at(result), node.plan.placement}] = value;
}

void LocalBuilder::append(PlannedNode const& node, Task task) {
  Node local = node.node;
  auto const& rule = node.shapes.rule;
  std::size_t next = 0;
  auto const result = [&](ValueId id) {
    Placement const placement = result_placement(node.plan, rule.result_shapes, next);
    ValueId const own =
        new_value(local_shape(rule.result_shapes[next], placement, rank_), plan_->graph.value(id).tensor.dtype);
    copies_[{id, placement}] = own;
    ++next;
    return TensorRef{own};
  };
  for (Argument& output : local.outputs) {
    if (auto* one = std::get_if<TensorRef>(&output)) {
      *one = result(one->value);
    } else if (auto* many = std::get_if<Tensors>(&output)) {
      for (TensorRef& tensor : *many) {
        tensor = result(tensor.value);
      }
    }
  }
  result_.graph.nodes.push_back(std::move(local));
  result_.tasks.push_back(std::move(task));
  result_.parts.push_back(part_);
}

// Without cells, but with a gradient where the other ranks' parts have one: the ranks' backward passes are alike.
void LocalBuilder::append_empty(PlannedNode& node) {
  EmptyTask task;
  std::string_view const name = node.name();
  bool const constant = name == "detach" || name.starts_with("new_") || name.ends_with("_like") || is_random(name);
  Tensors links;
  for (ValueId const id : node.tensors) {
    if (!constant) {
      links.push_back(TensorRef{id});
    }
  }
  node.node.inputs = {NamedArgument{.name = "tensors", .value = std::move(links)}};
  auto const& rule = node.shapes.rule;
  for (std::size_t i = 0; i < rule.results.size(); ++i) {
    task.shapes.push_back(
        local_shape(rule.result_shapes[i], result_placement(node.plan, rule.result_shapes, i), rank_));
    task.dtypes.push_back(plan_->graph.value(rule.results[i]).tensor.dtype);
  }
  append(node, std::move(task));
}

void LocalBuilder::write_view(PlannedNode& node) {
  finish(node, emit("aten.reshape.default", {tensor_input("self", node.tensors.at(0)), input_of("shape", node.local)},
                    node.local, dtype(node.tensors[0])));
}

// New tensors by the sizes of another: of the sizes alone.
void LocalBuilder::write_factory(PlannedNode& node) {
  std::string_view const name = node.name();
  Dtype const dtype = plan_->graph.value(node.shapes.rule.results[0]).tensor.dtype;
  Inputs inputs{input_of("size", node.local), input_of("dtype", dtype)};
  std::string target = name.find("ones") != std::string_view::npos ? "aten.ones.default" : "aten.zeros.default";
  if (Argument const* fill = node.node.input("fill_value"); fill != nullptr && name.find("full") == 0) {
    inputs.push_back(input_of("fill_value", *fill));
    target = "aten.full.default";
  } else if (fill != nullptr) {
    inputs.push_back(input_of("fill_value", *fill));
    target = "aten.full.default";
  }
  finish(node, emit(target, std::move(inputs), node.local, dtype));
}

ValueId LocalBuilder::root(ValueId value) {
  while (alias_of_[at(value)] != value) {
    value = alias_of_[at(value)];
  }
  return value;
}

// Values that may share memory: results of views with their tensors.
void LocalBuilder::find_aliases() {
  alias_of_.resize(plan_->graph.values.size());
  std::iota(alias_of_.begin(), alias_of_.end(), 0);
  for (Node const& node : plan_->graph.nodes) {
    for (auto const& [result, source] : shared_memory(node)) {
      alias_of_[at(root(result))] = root(source);
    }
    Argument const* const self = node.input("self");
    auto const* const tensor = self == nullptr ? nullptr : std::get_if<TensorRef>(self);
    for (Argument const& output : node.outputs) {
      if (in_place(node.target) && tensor != nullptr) {
        visit_tensors(output, [&](ValueId id) { alias_of_[at(root(id))] = root(tensor->value); });
      }
    }
  }
  find_reads();
}

// Of tensors that share memory, by the nodes that make them: the last read of those made so far.
void LocalBuilder::find_reads() {
  std::vector<NodeId> last(plan_->graph.values.size(), -1);
  NodeId place = 0;
  auto const note = [&](ValueId id) { last[at(id)] = place; };
  for (Node const& node : plan_->graph.nodes) {
    for (NamedArgument const& input : node.inputs) {
      visit_tensors(input.value, note);
    }
    ++place;
  }
  for (Argument const& output : plan_->graph.outputs) {
    visit_tensors(output, note);
  }
  reads_.resize(last.size());
  auto const add = [&](ValueId id) {
    auto& reads = reads_[at(root(id))];
    reads.emplace_back(plan_->graph.value(id).producer,
                       std::max(last[at(id)], reads.empty() ? -1 : reads.back().second));
  };
  for (std::size_t id = 0; id < last.size(); ++id) {
    if (plan_->graph.values[id].producer < 0) {
      add(static_cast<ValueId>(id));
    }
  }
  for (Node const& node : plan_->graph.nodes) {
    for (Argument const& output : node.outputs) {
      visit_tensors(output, add);
    }
  }
}

// Whether a node after this one reads a tensor that an earlier one has made in the same memory.
bool LocalBuilder::is_read_later(ValueId shared, NodeId node) const {
  auto const& reads = reads_[at(shared)];
  auto const end = std::ranges::lower_bound(reads, node, {}, &std::pair<NodeId, NodeId>::first);
  return end != reads.begin() && std::prev(end)->second > node;
}

// Parts of what is overwritten are out of date.
void LocalBuilder::forget_parts(ValueId overwritten) {
  if (alias_of_.empty()) {
    find_aliases();
  }
  ValueId const shared = root(overwritten);
  std::erase_if(copies_, [&](auto const& copy) { return copy.first.second && root(copy.first.first) == shared; });
  std::erase_if(pulled_, [&](auto const& pulled) { return root(std::get<0>(pulled.first)) == shared; });
}

// An operator in place runs on a copy here, so nothing may read what it overwrites: in the network, where the layout
// pass has not found a way to give readers the new values, or in the next call.
void LocalBuilder::check_overwriting(PlannedNode const& node) {
  if (alias_of_.empty()) {
    find_aliases();
  }
  ValueId const shared = root(node.shapes.rule.tensors.at(0));
  if (plan_->graph.value(shared).producer < 0 &&
      std::ranges::find(plan_->user_inputs, shared) == plan_->user_inputs.end()) {
    throw Error(Fault::input, "RefusedProgram",
                "refused: " + current_->describe() + ": it overwrites '" + plan_->graph.value(shared).name +
                    "', which the next call reads, with values of fields; export by run_decompositions({})");
  }
  if (is_read_later(shared, node.plan.node)) {
    throw Error(Fault::input, "RefusedProgram",
                "refused: " + current_->describe() + ": it overwrites '" +
                    plan_->graph.value(node.shapes.rule.tensors[0]).name +
                    "', which is read later; export by run_decompositions({}), which has no such operators");
  }
}

void LocalBuilder::write_plain(PlannedNode& node) {
  bool const alone = !node.plan.placement && !node.plan.field;
  if (in_place(node.node.target) && !node.tensors.empty()) {
    if (alone) {
      forget_parts(node.shapes.rule.tensors.at(0));
    } else {
      check_overwriting(node);
      node.tensors[0] = emit("aten.clone.default", {tensor_input("self", node.tensors[0])}, shape(node.tensors[0]),
                             dtype(node.tensors[0]));
      node.node = localized(*current_, node.tensors);
    }
  }
  if (!node.node.target.starts_with("aten.") && !node.tensors.empty()) {  // other libraries read dense tensors alone
    for (ValueId& tensor : node.tensors) {
      tensor = emit("aten.contiguous.default", {tensor_input("self", tensor)}, shape(tensor), dtype(tensor));
    }
    node.node = localized(*current_, node.tensors);
  }
  double const p = drop_probability(node);
  if (p > 0 && node.name() == "native_dropout") {
    write_native_dropout(*this, node, p);
    return;
  }
  if (p > 0 && node.name() != "dropout") {
    finish(node, write_attention(*this, node, p));
    return;
  }
  if (p > 0) {
    DropoutTask task{p, plan_->shapes[at(node.shapes.rule.tensors.at(0))], node.plan.placement,
                     static_cast<std::uint32_t>(node.plan.node)};
    node.tensors[0] = emit("graticule.dropout", {tensor_input("self", node.tensors.at(0))}, shape(node.tensors[0]),
                           dtype(node.tensors[0]), std::move(task));
    node.node = localized(*current_, node.tensors);
    set_input(node.node, "train", false);
  }
  if (node.name() == "cross" && !node.shapes.has("dim")) {  // a part may have three cells along an earlier axis
    set_input(node.node, "dim", unnamed_axis_of_cross(node.shapes));
  }
  append(node, PlainTask{});
}

// On this rank's rows, along the other axes.
void LocalBuilder::write_padding(PlannedNode& node) {
  ValueId const x = node.tensors.at(0);
  node.local[at(node.axis)] = shape(x)[at(node.axis)];
  ValueId result = -1;
  if (num_elements(node.local) == 0) {
    EmptyTask empty{{node.local}, {dtype(x)}};
    result = emit("graticule.empty", {tensor_input("self", x)}, node.local, dtype(x), std::move(empty));
  } else {
    result = write_table(*this, node);
  }
  padded_[node.shapes.rule.results.at(0)] = result;
}

void LocalBuilder::write_convolution(PlannedNode& node) {
  Inputs inputs;
  for (ValueId const tensor : node.tensors) {
    inputs.push_back(tensor_input("tensor", tensor));
  }
  finish(node, emit("graticule.convolution", std::move(inputs), node.local, result_dtype(node),
                    ConvTask{overlaps_.convolutions.at(node.plan.node)}));
}

void LocalBuilder::write(PlannedNode& node) {
  auto const& rule = node.shapes.rule;
  std::string_view const name = node.name();
  bool const cut = node.plan.placement.has_value();
  bool const dropped = one_of(name, {"view_as", "reshape_as"});
  result_.draws_always = result_.draws_always || is_random(name);
  result_.draws = result_.draws || result_.draws_always || drop_probability(node) > 0;
  if (overlaps_.paddings.contains(node.plan.node)) {
    write_padding(node);
  } else if (overlaps_.convolutions.contains(node.plan.node)) {
    write_convolution(node);
  } else if (node.plan.sum_over_ranks) {
    finish(node, write_sum(*this, node));
  } else if (cut && node.plan.mode == RunMode::statistic) {
    append(node, norm_task(node, *this));
  } else if (cut && num_elements(node.local) == 0) {
    append_empty(node);
  } else if (is_random(name)) {
    if (in_place(node.node.target)) {
      check_overwriting(node);
    }
    write_random(*this, node);
  } else if (rule.view && (node.plan.field || cut || dropped)) {
    write_view(node);
  } else if (one_of(name, {"expand", "expand_as", "broadcast_to"}) && (cut || name == "expand_as")) {
    finish(node, emit("aten.expand.default", {tensor_input("self", node.tensors.at(0)), input_of("size", node.local)},
                      node.local, dtype(node.tensors[0])));
  } else if (name == "type_as") {
    finish(node, emit("aten._to_copy.default",
                      {tensor_input("self", node.tensors.at(0)), input_of("dtype", result_dtype(node))}, node.local,
                      result_dtype(node)));
  } else if (name.starts_with("new_") || name.ends_with("_like")) {
    write_factory(node);
  } else if (cut && node.plan.mode == RunMode::table) {
    finish(node, write_table(*this, node));
  } else if (cut && node.plan.mode == RunMode::window) {
    finish(node, write_window(*this, node));
  } else {
    write_plain(node);
  }
}

void LocalBuilder::step(NodePlan const& plan) {
  current_ = &plan_->graph.nodes[at(plan.node)];
  part_ = plan.part;
  NodeShapes shapes(plan_->graph, *current_, *sizes_);
  apply_rule(shapes);
  std::vector<ValueId> tensors;
  for (std::size_t tensor = 0; tensor < plan.tensors.size(); ++tensor) {
    tensors.push_back(read(plan, tensor, fill_value(shapes)));
  }
  PlannedNode node{plan,
                   shapes,
                   localized(*current_, tensors),
                   tensors,
                   plan.local_sizes[at(rank_)],
                   plan.placement ? plan.placement->axis : -1};
  write(node);
}

void LocalBuilder::end_outputs() {
  part_ = -1;
  std::size_t next = 0;
  for (Argument const& output : plan_->graph.outputs) {
    if (std::holds_alternative<TensorRef>(output)) {
      result_.graph.outputs.push_back(TensorRef{fetched(plan_->outputs[next++], 0)});
    } else if (auto const* symbol = std::get_if<SymbolRef>(&output)) {
      result_.graph.outputs.push_back(number_of(symbol->value));
    } else {
      result_.graph.outputs.push_back(output);
    }
  }
}

LocalGraph LocalBuilder::build() {
  place_inputs();
  for (NodePlan const& node : plan_->nodes) {
    step(node);
  }
  end_outputs();
  // Constants are inputs as well.
  std::vector<bool> produced(result_.graph.values.size(), false);
  auto const mark = [&](ValueId id) { produced[at(id)] = true; };
  for (Argument const& input : result_.graph.inputs) {
    visit_tensors(input, mark);
  }
  for (std::size_t i = 0; i < result_.graph.nodes.size(); ++i) {
    for (Argument const& output : result_.graph.nodes[i].outputs) {
      visit_tensors(output, [&](ValueId id) {
        produced[at(id)] = true;
        result_.graph.values[at(id)].producer = static_cast<NodeId>(i);
      });
    }
  }
  for (std::size_t id = 0; id < produced.size(); ++id) {
    if (!produced[id]) {
      result_.graph.inputs.push_back(TensorRef{static_cast<ValueId>(id)});
    }
  }
  return std::move(result_);
}

LocalGraph local_graph(Plan const& plan, Sizes const& sizes, Conversion const& conversion, int rank) {
  return LocalBuilder(plan, sizes, conversion, rank).build();
}

}  // namespace graticule::program::detail
