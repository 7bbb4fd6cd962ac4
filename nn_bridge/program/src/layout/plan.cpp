// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/operators.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include "cut_moves.hpp"
#include "graph/nodes.hpp"
#include "passes.hpp"
#include "strategy.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace graticule::program {

namespace {

// Decisions of a plan, newest first; plans share their pasts.
struct Decision {
  NodePlan node;
  std::shared_ptr<Decision const> before;
};

struct State {
  double cost = 0;
  // Of the values that later nodes need, where they are; those that are only whole, as weights are, do not stand here.
  std::map<ValueId, std::set<Placement>> copies;
  std::shared_ptr<Decision const> last;
};

std::set<Placement> const& placements_of(State const& state, ValueId value) {
  static std::set<Placement> const whole{Placement()};
  auto const found = state.copies.find(value);
  return found == state.copies.end() ? whole : found->second;
}

// Of a value that is needed whole.
Transfer transfer_of(ValueId value) {
  Transfer transfer;
  transfer.value = value;
  return transfer;
}

std::vector<ValueId> inputs_of_user(ExportedGraph const& program, Graph const& flat) {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    auto const* tensor = std::get_if<TensorRef>(&flat.inputs[i]);
    if (tensor != nullptr && program.inputs[i].kind == InputSpec::Kind::user) {
      ids.push_back(tensor->value);
    }
  }
  return ids;
}

class Planner {
 public:
  Planner(ExportedGraph const& program, Sizes const& sizes, PlanOptions const& options);

  Plan plan();

 private:
  void place_inputs(ExportedGraph const& program);
  void place_input(ValueId id, Placement const& placement);
  void place_at_ends(Ends const& ends);
  void set_first_field(Shape const& shape);
  void step(std::size_t node);
  void extend(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const;
  void add_cuts(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const;
  void add_sums(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const;
  void add(State const& state, NodePlan node, NodeRule const& rule, std::vector<State>& next) const;
  void keep_best(std::vector<State>& next);
  void refuse_gathers(std::size_t node) const;
  void finish();
  [[nodiscard]] Placement output_cut(State const& state, std::size_t output, ValueId value) const;
  [[nodiscard]] Placement output_at_end(State const& state, std::size_t output, ValueId value) const;
  void end_outputs(State& state, std::vector<Transfer>& outputs) const;
  void count_memory();
  void find_parts();
  [[nodiscard]] std::vector<bool> read_behind_parts(std::vector<NodeRule> const& rules) const;
  void fetch(State& state, Transfer& transfer) const;
  [[nodiscard]] double read_bytes(NodePlan const& node, NodeRule const& rule, std::int64_t most) const;

  [[nodiscard]] Placement caller_cut(Shape const& shape) const;
  [[nodiscard]] Placement cut_of(Shape const& shape) const;
  [[nodiscard]] Dtype dtype(ValueId id) const { return plan_.graph.value(id).tensor.dtype; }
  [[nodiscard]] std::int64_t item(ValueId id) const { return item_bytes(dtype(id)); }

  Sizes const* sizes_;
  PlanOptions options_;
  Plan plan_;
  std::vector<bool> field_;
  std::vector<NodeId> last_use_;
  std::vector<State> states_;
  std::vector<ValueId> weights_;
  std::vector<OutputSpec> outputs_;
  std::size_t first_ndim_ = 0;  // of the first field
  std::int64_t rows_ = 0;       // of the caller's cut
};

Planner::Planner(ExportedGraph const& program, Sizes const& sizes, PlanOptions const& options)
    : sizes_(&sizes), options_(options), outputs_(program.outputs) {
  detail::check_operators(program);
  Graph const flat = inlined(program.graph);
  auto const written = detail::without_overwriting(flat, sizes, inputs_of_user(program, flat),
                                                   detail::switches_gradients_off(program.graph));
  plan_.graph = detail::with_open_shuffles(written, sizes);
  plan_.num_ranks = options.num_ranks;
  plan_.costs = options.costs;
  field_.resize(plan_.graph.values.size());
  plan_.inputs.resize(plan_.graph.values.size());
  plan_.shapes.resize(plan_.graph.values.size());
  for (std::size_t id = 0; id < plan_.graph.values.size(); ++id) {
    if (plan_.graph.values[id].kind == Value::Kind::tensor) {
      plan_.shapes[id] = sizes(plan_.graph.values[id].tensor).value_or(Shape{});
    }
  }
  states_.emplace_back();
  place_inputs(program);
  last_use_ = detail::last_reads(plan_.graph);
}

// Rows of an output with about as many axes as the network's first field.
Placement Planner::caller_cut(Shape const& shape) const {
  return is_field(shape.size(), first_ndim_) ? cut_of(shape) : std::nullopt;
}

// Rows of a field.
Placement Planner::cut_of(Shape const& shape) const {
  std::int64_t const axis = static_cast<std::int64_t>(shape.size()) + options_.field_axis;
  if (axis < 0 || shape[index(axis)] < 1) {
    return std::nullopt;
  }
  if (shape[index(axis)] == rows_ && !options_.bounds.empty()) {
    return Cut{axis, rows_, options_.bounds};
  }
  return Cut::balanced(axis, shape[index(axis)], options_.num_ranks);
}

void Planner::place_inputs(ExportedGraph const& program) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    auto const* tensor = std::get_if<TensorRef>(&plan_.graph.inputs[i]);
    if (tensor != nullptr) {
      (program.inputs[i].kind == InputSpec::Kind::user ? plan_.user_inputs : weights_).push_back(tensor->value);
    }
  }
  if (options_.ends) {
    place_at_ends(*options_.ends);
    return;
  }
  if (auto const first = first_field(program, options_.fields)) {
    set_first_field(plan_.shapes[index(plan_.user_inputs.at(*first))]);
  }
  std::vector<bool> const fields = field_inputs(program, options_.fields);
  for (std::size_t i = 0; i < plan_.user_inputs.size(); ++i) {
    ValueId const id = plan_.user_inputs[i];
    place_input(id, fields[i] ? cut_of(plan_.shapes[index(id)]) : Placement());
  }
}

void Planner::place_input(ValueId id, Placement const& placement) {
  field_[index(id)] = true;
  plan_.inputs[index(id)] = placement;
  if (placement) {
    states_[0].copies[id].insert(placement);
  }
}

void Planner::place_at_ends(Ends const& ends) {
  if (ends.inputs.size() != plan_.user_inputs.size()) {
    throw Error("BadArgument", "a program of " + std::to_string(plan_.user_inputs.size()) +
                                   " inputs needs as many placements, got " + std::to_string(ends.inputs.size()));
  }
  for (std::size_t i = 0; i < ends.inputs.size(); ++i) {
    place_input(plan_.user_inputs[i], ends.inputs[i]);
  }
}

void Planner::set_first_field(Shape const& shape) {
  if (shape.size() < index(-options_.field_axis)) {
    return;
  }
  first_ndim_ = shape.size();
  rows_ = shape[shape.size() - index(-options_.field_axis)];
  auto const& bounds = options_.bounds;
  if (!bounds.empty() && (bounds.front() != 0 || bounds.back() != rows_ || !std::ranges::is_sorted(bounds) ||
                          static_cast<std::int64_t>(bounds.size()) != options_.num_ranks + 1)) {
    throw Error(Fault::input, "BadCuts",
                "the bounds of the cut must rise from 0 to " + std::to_string(rows_) + " in " +
                    std::to_string(options_.num_ranks) + " shares");
  }
}

// Takes the transfer from the cheapest place where the value is.
void Planner::fetch(State& state, Transfer& transfer) const {
  Transfer best;
  double cost = -1;
  for (Placement const& from : placements_of(state, transfer.value)) {
    transfer.from = from;
    detail::count(transfer, plan_.shapes[index(transfer.value)], item(transfer.value), options_.num_ranks);
    double const own = static_cast<double>(std::ranges::max(transfer.bytes)) +
                       options_.costs.message * static_cast<double>(transfer.messages);
    if (cost < 0 || own < cost) {
      cost = own;
      best = transfer;
    }
  }
  transfer = best;
  state.cost += cost;
  if (transfer.axis < 0 && transfer.from) {
    state.copies[transfer.value].insert(transfer.to);
  }
}

// Of the largest tensor, on the rank that has most; nothing for operators that read as many cells as they write.
double Planner::read_bytes(NodePlan const& node, NodeRule const& rule, std::int64_t most) const {
  auto const kind = operator_class(plan_.graph.nodes[index(node.node)].target);
  bool const by_table =
      std::ranges::any_of(rule.axes, [](AxisRule const& axis) { return axis.mode == RunMode::table; });
  if (kind != OperatorClass::contraction && kind != OperatorClass::statistic && kind != OperatorClass::spectral &&
      (kind != OperatorClass::stencil || by_table)) {
    return 0;
  }
  double largest = 0;
  for (Transfer const& transfer : node.tensors) {
    bool const is_cut = transfer.to || transfer.axis >= 0;
    double const share = !is_cut ? 1.0
                         : node.sum_over_ranks
                             ? 1.0 / static_cast<double>(options_.num_ranks)
                             : static_cast<double>(most) /
                                   static_cast<double>(std::max<std::int64_t>(1, num_elements(rule.result_shapes[0])));
    largest = std::max(
        largest, share * static_cast<double>(num_elements(plan_.shapes[index(transfer.value)]) * item(transfer.value)));
  }
  return largest;
}

void Planner::add(State const& state, NodePlan node, NodeRule const& rule, std::vector<State>& next) const {
  State extended = state;
  for (Transfer& transfer : node.tensors) {
    bool const was_cut = !placements_of(extended, transfer.value).contains(Placement());
    fetch(extended, transfer);
    node.gathered |= options_.num_ranks > 1 && was_cut && transfer.axis < 0 && !transfer.to;
  }
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < options_.num_ranks; ++rank) {
    node.local_sizes.push_back(local_shape(rule.result_shapes[0], node.placement, rank));
    most = std::max(most, num_elements(node.local_sizes.back()));
  }
  if (!rule.view) {
    auto const parts = node.sum_over_ranks ? static_cast<double>(options_.num_ranks) : 1.0;
    auto const written = static_cast<double>(most * item(rule.results[0]));
    node.touched_bytes = written + std::max(written, read_bytes(node, rule, most));
    // Rules of products count a multiplication and its addition as one; of complex numbers they are eight of real ones.
    bool const is_product = operator_class(plan_.graph.nodes[index(node.node)].target) == OperatorClass::contraction;
    auto const each = !is_product ? 1.0 : detail::is_complex(dtype(rule.results[0])) ? 8.0 : 2.0;
    node.operations = static_cast<double>(most) * static_cast<double>(rule.operations) * each / parts;
  }
  double const work =
      options_.costs.work * static_cast<double>(most) *
      (rule.view ? 0.0 : 2.0 * static_cast<double>(item(rule.results[0])) + static_cast<double>(rule.operations) / 4.0);
  bool const repeated = node.field && !node.placement && !node.sum_over_ranks;
  extended.cost += node.field ? work * (repeated ? options_.costs.replicated : 1.0) : 0.0;
  if (options_.num_ranks > 1 && (node.sum_over_ranks || node.mode == RunMode::statistic)) {
    node.statistics_bytes = rule.statistics * item(rule.results[0]);
    extended.cost += 2.0 * static_cast<double>(node.statistics_bytes) + 2.0 * options_.costs.message;
  }
  for (ValueId const id : rule.tensors) {
    if (last_use_[index(id)] <= node.node) {
      extended.copies.erase(id);
    }
  }
  for (std::size_t i = 0; i < rule.results.size(); ++i) {
    if (auto const placement = result_placement(node, rule.result_shapes, i)) {
      extended.copies[rule.results[i]] = {placement};
    }
  }
  extended.last = std::make_shared<Decision const>(Decision{std::move(node), state.last});
  next.push_back(std::move(extended));
}

void Planner::add_cuts(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const {
  auto const fresh = detail::fresh_cuts(rule, options_.num_ranks);
  std::set<Cut> cuts(fresh.begin(), fresh.end());
  for (std::size_t i = 0; i < rule.tensors.size(); ++i) {
    for (Placement const& placement : placements_of(state, rule.tensors[i])) {
      if (placement) {
        auto const after = detail::cuts_after(rule, i, *placement);
        cuts.insert(after.begin(), after.end());
      }
    }
  }
  for (Cut const& cut : cuts) {
    auto transfers = detail::needs(rule, cut);
    bool const statistic = rule.axes[index(cut.axis)].mode == RunMode::statistic;
    bool const alike = std::ranges::all_of(rule.result_shapes, [&](Shape const& shape) {
      Shape const& first = rule.result_shapes[0];
      return shape.size() == first.size() ? shape[index(cut.axis)] == first[index(cut.axis)]
                                          : statistic || num_elements(shape) == 0;
    });
    if (transfers && alike) {
      NodePlan plan;
      plan.node = static_cast<NodeId>(node);
      plan.mode = rule.axes[index(cut.axis)].mode;
      plan.placement = cut;
      plan.tensors = std::move(*transfers);
      plan.field = true;
      add(state, std::move(plan), rule, next);
    }
  }
}

// Cut where it is summed, each rank has a part of the sum.
void Planner::add_sums(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const {
  for (auto const& label : rule.contracted) {
    std::set<Cut> cuts;
    for (std::size_t i = 0; i < rule.tensors.size(); ++i) {
      for (Placement const& placement : placements_of(state, rule.tensors[i])) {
        if (placement && label[i] == placement->axis) {
          cuts.insert(*placement);
        }
      }
    }
    for (Cut const& cut : cuts) {
      NodePlan plan;
      plan.node = static_cast<NodeId>(node);
      plan.sum_over_ranks = true;
      plan.field = true;
      for (std::size_t i = 0; i < rule.tensors.size(); ++i) {
        plan.tensors.push_back(transfer_of(rule.tensors[i]));
        if (label[i] >= 0) {
          plan.tensors.back().to = Cut{label[i], cut.period, cut.bounds};
        }
      }
      add(state, std::move(plan), rule, next);
    }
  }
}

void Planner::extend(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const {
  bool const field = std::ranges::any_of(rule.tensors, [&](ValueId id) { return field_[index(id)]; });
  if (field) {
    add_cuts(state, node, rule, next);
    add_sums(state, node, rule, next);
  }
  NodePlan whole;
  whole.node = static_cast<NodeId>(node);
  whole.field = field;
  for (ValueId const id : rule.tensors) {
    whole.tensors.push_back(transfer_of(id));
  }
  add(state, std::move(whole), rule, next);
}

void Planner::keep_best(std::vector<State>& next) {
  std::ranges::stable_sort(next, {}, &State::cost);
  std::set<std::map<ValueId, std::set<Placement>>> seen;
  states_.clear();
  for (State& state : next) {
    if (states_.size() < options_.beam && seen.insert(state.copies).second) {
      states_.push_back(std::move(state));
    }
  }
}

void Planner::refuse_gathers(std::size_t node) const {
  for (Transfer const& transfer : states_.front().last->node.tensors) {
    std::int64_t const bytes = std::ranges::max(transfer.bytes);
    if (transfer.axis < 0 && !transfer.to && bytes > options_.largest_gather) {
      detail::refuse_node(plan_.graph.nodes[node], "every rank needs the whole of '" +
                                                       plan_.graph.value(transfer.value).name + "' and would receive " +
                                                       std::to_string(bytes) +
                                                       " bytes; use windows or more heads, or allow larger gathers");
    }
  }
}

void Planner::step(std::size_t node) {
  auto const rule = node_rule(plan_.graph, plan_.graph.nodes[node], *sizes_);
  if (!rule) {
    return;
  }
  for (ValueId const id : rule->results) {
    field_[index(id)] = std::ranges::any_of(rule->tensors, [&](ValueId tensor) { return field_[index(tensor)]; });
  }
  std::vector<State> next;
  for (State const& state : states_) {
    extend(state, node, *rule, next);
  }
  keep_best(next);
  refuse_gathers(node);
}

// Fields go back as the caller cuts them, what overwrites an input as that input, all else whole.
Placement Planner::output_cut(State const& state, std::size_t output, ValueId value) const {
  OutputSpec const& spec = outputs_[output];
  if (spec.kind == OutputSpec::Kind::user_input_mutation) {
    ValueId const input = plan_.graph.find(spec.name);
    return input < 0 ? Placement() : plan_.inputs[index(input)];
  }
  if (options_.ends) {
    return spec.kind == OutputSpec::Kind::user ? output_at_end(state, output, value) : Placement();
  }
  bool const cut = spec.kind == OutputSpec::Kind::user && field_[index(value)];
  return cut ? caller_cut(plan_.shapes[index(value)]) : Placement();
}

// Where it is wanted; else where it is, cut rather than whole.
Placement Planner::output_at_end(State const& state, std::size_t output, ValueId value) const {
  std::size_t user = 0;
  for (std::size_t i = 0; i < output; ++i) {
    user += outputs_[i].kind == OutputSpec::Kind::user ? 1 : 0;
  }
  auto const& wanted = options_.ends->outputs;
  if (user < wanted.size() && wanted[user]) {
    return *wanted[user];
  }
  return *std::ranges::max_element(placements_of(state, value), {},
                                   [](Placement const& one) { return one.has_value(); });
}

void Planner::end_outputs(State& state, std::vector<Transfer>& outputs) const {
  for (std::size_t i = 0; i < plan_.graph.outputs.size(); ++i) {
    if (auto const* tensor = std::get_if<TensorRef>(&plan_.graph.outputs[i])) {
      Transfer transfer;
      transfer.value = tensor->value;
      transfer.to = output_cut(state, i, tensor->value);
      fetch(state, transfer);
      outputs.push_back(std::move(transfer));
    }
  }
}

void Planner::count_memory() {
  std::size_t const ranks = index(options_.num_ranks);
  plan_.weights_bytes.assign(ranks, 0);
  plan_.activation_bytes.assign(ranks, 0);
  plan_.recomputed_bytes.assign(ranks, 0);
  plan_.received_bytes.assign(ranks, 0);
  std::vector<NodeRule> rules;
  for (NodePlan const& node : plan_.nodes) {
    rules.push_back(*node_rule(plan_.graph, plan_.graph.nodes[index(node.node)], *sizes_));
  }
  auto const kept = read_behind_parts(rules);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (ValueId const id : weights_) {
      plan_.weights_bytes[rank] += num_elements(plan_.shapes[index(id)]) * item(id);
    }
    std::map<int, std::int64_t> within;  // parts that are computed again
    for (std::size_t place = 0; place < plan_.nodes.size(); ++place) {
      NodePlan const& node = plan_.nodes[place];
      NodeRule const& rule = rules[place];
      for (std::size_t i = 0; i < rule.results.size() && !rule.view; ++i) {
        std::int64_t const bytes =
            num_elements(local_shape(rule.result_shapes[i], result_placement(node, rule.result_shapes, i),
                                     static_cast<std::int64_t>(rank))) *
            item(rule.results[i]);
        if (node.part < 0 || kept[index(rule.results[i])]) {
          plan_.activation_bytes[rank] += bytes;
        } else {
          auto& part = within[node.part];
          part += bytes;
          plan_.recomputed_bytes[rank] = std::max(plan_.recomputed_bytes[rank], part);
        }
      }
      for (Transfer const& transfer : node.tensors) {
        plan_.received_bytes[rank] += transfer.bytes[rank];
      }
      plan_.received_bytes[rank] += 2 * node.statistics_bytes;
    }
    for (Transfer const& transfer : plan_.outputs) {
      plan_.received_bytes[rank] += transfer.bytes[rank];
    }
  }
}

void Planner::find_parts() {
  auto const parts = detail::recomputed_parts(plan_.graph);
  for (NodePlan& node : plan_.nodes) {
    node.part = parts.of_node[index(node.node)];
  }
  plan_.kept_parts = parts.kept;
  plan_.num_parts = parts.num_parts - static_cast<std::int64_t>(parts.kept.size());
}

// Per value, whether nodes of another part read it, or a view of it, or the caller gets it.
std::vector<bool> Planner::read_behind_parts(std::vector<NodeRule> const& rules) const {
  std::vector<bool> read(plan_.graph.values.size(), false);
  for (Transfer const& transfer : plan_.outputs) {
    read[index(transfer.value)] = true;
  }
  std::vector<int> part_of(plan_.graph.values.size(), -1);
  for (std::size_t place = 0; place < rules.size(); ++place) {
    for (ValueId const id : rules[place].results) {
      part_of[index(id)] = plan_.nodes[place].part;
    }
  }
  for (std::size_t place = rules.size(); place-- > 0;) {
    bool const of_view = rules[place].view && read[index(rules[place].results.at(0))];
    for (ValueId const id : rules[place].tensors) {
      if (of_view || part_of[index(id)] != plan_.nodes[place].part) {
        read[index(id)] = true;
      }
    }
  }
  return read;
}

void Planner::finish() {
  double cheapest = -1;
  State best;
  for (State const& state : states_) {
    State ended = state;
    std::vector<Transfer> outputs;
    end_outputs(ended, outputs);
    if (cheapest < 0 || ended.cost < cheapest) {
      cheapest = ended.cost;
      plan_.outputs = std::move(outputs);
      best = state;
    }
  }
  for (auto decision = best.last; decision; decision = decision->before) {
    plan_.nodes.push_back(decision->node);
  }
  std::ranges::reverse(plan_.nodes);
  detail::cut_constants(plan_, *sizes_);
  for (NodePlan const& node : plan_.nodes) {
    for (Transfer const& transfer : node.tensors) {
      plan_.messages += transfer.messages;
    }
    plan_.messages += node.statistics_bytes > 0 ? 1 : 0;
  }
  find_parts();
  count_memory();
  if (options_.blocks) {
    detail::count_blocks(plan_, *options_.blocks);
  }
}

Plan Planner::plan() {
  for (std::size_t node = 0; node < plan_.graph.nodes.size(); ++node) {
    step(node);
  }
  finish();
  return std::move(plan_);
}

}  // namespace

std::optional<std::size_t> first_field(ExportedGraph const& program, DeclaredFields const& declared) {
  auto const ids = user_inputs(program);
  if (declared) {
    if (declared->size() != ids.size()) {
      throw Error("BadArgument", "a program of " + std::to_string(ids.size()) +
                                     " inputs needs as many declarations of fields, got " +
                                     std::to_string(declared->size()));
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if ((*declared)[i] && program.graph.value(ids[i]).tensor.sizes.size() < 2) {
        throw Error("BadArgument", "the input '" + program.graph.value(ids[i]).name +
                                       "' is declared as a field and has no rows and columns");
      }
    }
    auto const found = std::ranges::find(*declared, true);
    return found == declared->end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - declared->begin()));
  }
  for (std::size_t const least : {3U, 2U}) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (program.graph.value(ids[i]).tensor.sizes.size() >= least) {
        return i;
      }
    }
  }
  return std::nullopt;
}

std::vector<bool> field_inputs(ExportedGraph const& program, DeclaredFields const& declared) {
  auto const ids = user_inputs(program);
  auto const first = first_field(program, declared);
  if (declared) {
    return *declared;
  }
  std::vector<bool> fields(ids.size(), false);
  for (std::size_t i = 0; first && i < ids.size(); ++i) {
    fields[i] =
        is_field(program.graph.value(ids[i]).tensor.sizes.size(), program.graph.value(ids[*first]).tensor.sizes.size());
  }
  return fields;
}

bool is_field(std::size_t ndim, std::size_t first_ndim) {
  return ndim >= 2 && ndim + 1 >= first_ndim && ndim <= first_ndim + 1;
}

Placement result_placement(NodePlan const& node, std::vector<Shape> const& result_shapes, std::size_t result) {
  Shape const& shape = result_shapes[result];
  bool const has_axes = shape.size() == result_shapes[0].size();
  bool const whole = !has_axes && (node.mode == RunMode::statistic || num_elements(shape) == 0);
  return whole ? Placement() : node.placement;
}

Plan plan_layout(ExportedGraph const& program, Sizes const& sizes, PlanOptions const& options) {
  if (options.num_ranks < 1 || options.field_axis >= 0) {
    throw Error(Fault::input, "BadCuts", "a layout needs at least one rank, and an axis counted from the end");
  }
  if (options.blocks && options.num_ranks != static_cast<std::int64_t>((options.blocks->rows.size() - 1) *
                                                                       (options.blocks->columns.size() - 1))) {
    throw Error(Fault::input, "BadCuts", "the blocks are not those of " + std::to_string(options.num_ranks) + " ranks");
  }
  return Planner(program, sizes, options).plan();
}

}  // namespace graticule::program
