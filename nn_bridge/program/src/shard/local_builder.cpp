// SPDX-License-Identifier: BSD-3-Clause
#include "shard/local_builder.hpp"

#include "graph/nodes.hpp"

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>
#include <variant>

namespace graticule::program::detail {

namespace {

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
  auto const* const p = std::get_if<double>(node.node.input(dropout ? "p" : "dropout_p"));
  return p != nullptr && *p > 0 && (!dropout || node.shapes.flag("train", true)) ? *p : 0;
}

bool ascending_from(std::vector<std::int64_t> const& rows, std::int64_t first) {
  return std::ranges::equal(rows, std::views::iota(first, first + std::ssize(rows)));
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
  add(std::move(node), std::move(task));
  return id;
}

void LocalBuilder::add(Node node, Task task) {
  result_.graph.nodes.push_back(std::move(node));
  result_.tasks.push_back(std::move(task));
  result_.parts.push_back(part_);
}

ValueId LocalBuilder::apply(std::string const& target, ValueId self, Inputs more, std::optional<Shape> shape) {
  more.insert(more.begin(), tensor_input("self", self));
  return emit(target, std::move(more), shape ? *std::move(shape) : this->shape(self), dtype(self));
}

ValueId LocalBuilder::reshaped(ValueId self, Shape const& shape) {
  return apply("aten.reshape.default", self, {input_of("shape", shape)}, shape);
}

ValueId LocalBuilder::converted(ValueId self, Dtype dtype) {
  return emit("aten._to_copy.default", {tensor_input("self", self), input_of("dtype", dtype)}, shape(self), dtype);
}

ValueId LocalBuilder::drawn(PlannedNode const& node, ValueId self, Shape whole, double p, Draw draw) {
  DropoutTask task{p, std::move(whole), node.plan.placement, static_cast<std::uint32_t>(node.plan.node), draw};
  return emit(draw == Draw::mask ? "graticule.dropout" : "graticule.random", {tensor_input("self", self)}, shape(self),
              dtype(self), std::move(task));
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
    return reshaped(source, target);
  }
  return emit("graticule.move", {tensor_input("self", source)}, target, dtype(source), std::move(task));
}

ValueId LocalBuilder::of_all_ranks(ValueId source) {
  Shape whole = shape(source);
  whole.insert(whole.begin(), 1);
  ValueId const own = apply("aten.unsqueeze.default", source, {input_of("dim", std::int64_t{0})}, whole);
  whole[0] = plan_->num_ranks;
  MoveTask task{whole, Cut::balanced(0, plan_->num_ranks, plan_->num_ranks), 0, {}};
  task.rows.assign(index(plan_->num_ranks), numbers_below(plan_->num_ranks));
  return emit_move(own, whole, std::move(task));
}

// Rows along the axis; the fill value is what lies beyond both ends, or else one more row.
ValueId LocalBuilder::arranged(ValueId source, std::int64_t axis, std::vector<std::int64_t> const& rows, double fill) {
  auto const first = std::ranges::find_if(rows, [](std::int64_t row) { return row >= 0; });
  auto const last = std::find_if(rows.rbegin(), rows.rend(), [](std::int64_t row) { return row >= 0; }).base();
  std::vector<std::int64_t> inner(first, std::max(first, last));
  std::int64_t lower = first - rows.begin();
  std::int64_t upper = first == rows.end() ? 0 : rows.end() - last;
  std::int64_t const extent = shape(source)[index(axis)];
  auto const pad = [&](ValueId tensor, std::int64_t below, std::int64_t above) {
    Shape padded = shape(tensor);
    padded[index(axis)] += below + above;
    std::vector<std::int64_t> widths(2 * (padded.size() - index(axis)), 0);
    widths[widths.size() - 2] = below;
    widths[widths.size() - 1] = above;
    return apply("aten.constant_pad_nd.default", tensor, {input_of("pad", widths), input_of("value", fill)}, padded);
  };
  if (std::ranges::find(inner, -1) != inner.end()) {
    source = pad(source, 0, 1);
    std::ranges::replace(inner, -1, extent);
  }
  if (!ascending_from(inner, 0) || static_cast<std::int64_t>(inner.size()) != shape(source)[index(axis)]) {
    Shape taken = shape(source);
    taken[index(axis)] = static_cast<std::int64_t>(inner.size());
    std::int64_t const start = inner.empty() ? 0 : inner.front();
    if (ascending_from(inner, start)) {
      source =
          apply("aten.slice.Tensor", source,
                {input_of("dim", axis), input_of("start", start), input_of("end", start + taken[index(axis)])}, taken);
    } else {
      ValueId const places = constant(torch::tensor(inner, torch::kLong), Dtype::i64);
      source =
          apply("aten.index_select.default", source, {input_of("dim", axis), tensor_input("index", places)}, taken);
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
  Shape const& whole = plan_->shapes[index(value)];
  bool local = axis == from.axis;
  for (std::int64_t rank = 0; rank < plan_->num_ranks && local; ++rank) {
    auto const owned = from.owned_indices(whole[index(axis)], rank);
    local = std::ranges::includes(owned, rows[index(rank)]);
  }
  ValueId result = -1;
  if (local) {
    auto const owned = from.owned_indices(whole[index(axis)], rank_);
    std::vector<std::int64_t> places;
    for (std::int64_t const row : rows[index(rank_)]) {
      places.push_back(std::ranges::lower_bound(owned, row) - owned.begin());
    }
    result = arranged(source, axis, places, 0);
  } else {
    Shape target = whole;
    target[index(axis)] = static_cast<std::int64_t>(rows[index(rank_)].size());
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
  Shape const& whole = plan_->shapes[index(value)];
  ValueId result = -1;
  if (!from) {
    result = arranged(copies_.at({value, from}), to->axis, to->owned_indices(whole[index(to->axis)], rank_), 0);
  } else {
    std::int64_t const axis = to ? to->axis : from->axis;
    Rows rows;
    for (std::int64_t rank = 0; rank < plan_->num_ranks; ++rank) {
      rows.push_back(to ? to->owned_indices(whole[index(axis)], rank) : numbers_below(whole[index(axis)]));
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
  auto const& own = transfer.rows[index(rank_)];
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
    auto const& have = needed[index(rank_)];
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
    refuse_node(*current_,
                "the number '" + value.name + "' is not known before the network runs; export with real sizes");
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
    Placement const& placement = plan_->inputs[index(tensor->value)];
    ValueId const id = new_value(local_shape(plan_->shapes[index(tensor->value)], placement, rank_),
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
  visit_tensors(local.outputs, [&](ValueId& id) {
    Placement const placement = result_placement(node.plan, rule.result_shapes, next);
    ValueId const own =
        new_value(local_shape(rule.result_shapes[next], placement, rank_), plan_->graph.value(id).tensor.dtype);
    copies_[{id, placement}] = own;
    id = own;
    ++next;
  });
  add(std::move(local), std::move(task));
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

// New tensors by the sizes of another: of the sizes alone.
void LocalBuilder::write_factory(PlannedNode& node) {
  std::string_view const name = node.name();
  Dtype const dtype = plan_->graph.value(node.shapes.rule.results[0]).tensor.dtype;
  Inputs inputs{input_of("size", node.local), input_of("dtype", dtype)};
  std::string target = name.find("ones") != std::string_view::npos ? "aten.ones.default" : "aten.zeros.default";
  if (Argument const* const fill = node.node.input("fill_value")) {
    inputs.push_back(input_of("fill_value", *fill));
    target = "aten.full.default";
  }
  finish(node, emit(target, std::move(inputs), node.local, dtype));
}

// Of tensors that share memory, by the nodes that make them: the last read of those made so far.
void LocalBuilder::find_reads() {
  memory_.emplace(plan_->graph);
  auto const last = last_reads(plan_->graph);
  reads_.resize(last.size());
  auto const add_read = [&](ValueId id) {
    auto& reads = reads_[index(memory_->root(id))];
    reads.emplace_back(plan_->graph.value(id).producer,
                       std::max(last[index(id)], reads.empty() ? -1 : reads.back().second));
  };
  for (std::size_t id = 0; id < last.size(); ++id) {
    if (plan_->graph.values[id].producer < 0) {
      add_read(static_cast<ValueId>(id));
    }
  }
  for (Node const& node : plan_->graph.nodes) {
    visit_tensors(node.outputs, add_read);
  }
}

// Whether a node after this one reads a tensor that an earlier one has made in the same memory.
bool LocalBuilder::is_read_later(ValueId shared, NodeId node) const {
  auto const& reads = reads_[index(shared)];
  auto const end = std::ranges::lower_bound(reads, node, {}, &std::pair<NodeId, NodeId>::first);
  return end != reads.begin() && std::prev(end)->second > node;
}

// Parts of what is overwritten are out of date.
void LocalBuilder::forget_parts(ValueId overwritten) {
  if (!memory_) {
    find_reads();
  }
  auto const is_part = [&, shared = memory_->root(overwritten)](ValueId id) { return memory_->root(id) == shared; };
  std::erase_if(copies_, [&](auto const& copy) { return copy.first.second && is_part(copy.first.first); });
  std::erase_if(pulled_, [&](auto const& pulled) { return is_part(std::get<0>(pulled.first)); });
}

// An operator in place runs on a copy here, so nothing may read what it overwrites: in the network, where the layout
// pass has not found a way to give readers the new values, or in the next call.
void LocalBuilder::check_overwriting(PlannedNode const& node) {
  if (!memory_) {
    find_reads();
  }
  ValueId const shared = memory_->root(node.shapes.rule.tensors.at(0));
  if (plan_->graph.value(shared).producer < 0 &&
      std::ranges::find(plan_->user_inputs, shared) == plan_->user_inputs.end()) {
    refuse_node(*current_, "it overwrites '" + plan_->graph.value(shared).name +
                               "', which the next call reads, with values of fields; export by run_decompositions({})");
  }
  if (is_read_later(shared, node.plan.node)) {
    refuse_node(*current_, "it overwrites '" + plan_->graph.value(node.shapes.rule.tensors[0]).name +
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
      node.tensors[0] = apply("aten.clone.default", node.tensors[0]);
      node.node = localized(*current_, node.tensors);
    }
  }
  if (!node.node.target.starts_with("aten.") && !node.tensors.empty()) {  // other libraries read dense tensors alone
    for (ValueId& tensor : node.tensors) {
      tensor = apply("aten.contiguous.default", tensor);
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
    node.tensors[0] = drawn(node, node.tensors.at(0), plan_->shapes[index(node.shapes.rule.tensors.at(0))], p);
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
  node.local[index(node.axis)] = shape(x)[index(node.axis)];
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
    finish(node, reshaped(node.tensors.at(0), node.local));
  } else if (one_of(name, {"expand", "expand_as", "broadcast_to"}) && (cut || name == "expand_as")) {
    finish(node, apply("aten.expand.default", node.tensors.at(0), {input_of("size", node.local)}, node.local));
  } else if (name == "type_as") {
    finish(node, converted(node.tensors.at(0), result_dtype(node)));
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
  current_ = &plan_->graph.nodes[index(plan.node)];
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
                   plan.local_sizes[index(rank_)],
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
  auto const mark = [&](ValueId id) { produced[index(id)] = true; };
  visit_tensors(result_.graph.inputs, mark);
  for (std::size_t i = 0; i < result_.graph.nodes.size(); ++i) {
    visit_tensors(result_.graph.nodes[i].outputs, [&](ValueId id) {
      mark(id);
      result_.graph.values[index(id)].producer = static_cast<NodeId>(i);
    });
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
