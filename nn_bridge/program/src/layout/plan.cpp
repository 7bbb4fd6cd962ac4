// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/operators.hpp>

#include "strategy.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace graticule::program {

namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Decisions of a plan, newest first; plans share their pasts.
struct Decision {
  NodePlan node;
  std::shared_ptr<Decision const> before;
};

struct State {
  double cost = 0;
  std::map<ValueId, std::set<Placement>> copies;  // of the values that later nodes need
  std::shared_ptr<Decision const> last;
};

// Weights of the cost in bytes received.
constexpr double message_cost = 1024;
constexpr double work_cost = 0.25;
constexpr double replicated_cost = 4;  // of work that every rank repeats, beyond that it takes as long as on one

// Of a value that is needed whole.
Transfer transfer_of(ValueId value) {
  Transfer transfer;
  transfer.value = value;
  return transfer;
}

class Planner {
 public:
  Planner(ExportedGraph const& program, Sizes const& sizes, PlanOptions const& options);

  Plan plan();

 private:
  void place_inputs(ExportedGraph const& program);
  void find_last_uses();
  void step(std::size_t node);
  void extend(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const;
  void add_cuts(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const;
  void add_sums(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const;
  void add(State const& state, NodePlan node, NodeRule const& rule, std::vector<State>& next) const;
  void keep_best(std::vector<State>& next);
  void refuse_gathers(std::size_t node) const;
  void finish();
  void end_outputs(State& state, std::vector<Transfer>& outputs) const;
  void count_memory();
  void fetch(State& state, Transfer& transfer) const;

  [[nodiscard]] Placement caller_cut(Shape const& shape) const;
  [[nodiscard]] std::int64_t item(ValueId id) const { return item_bytes(plan_.graph.value(id).tensor.dtype); }

  Sizes const* sizes_;
  PlanOptions options_;
  Plan plan_;
  std::vector<bool> field_;
  std::vector<std::size_t> last_use_;
  std::vector<State> states_;
  std::vector<ValueId> weights_;
  std::int64_t rows_ = 0;  // of the caller's cut
};

Planner::Planner(ExportedGraph const& program, Sizes const& sizes, PlanOptions const& options)
    : sizes_(&sizes), options_(options) {
  check_operators(program);
  plan_.graph = inlined(program.graph);
  plan_.num_ranks = options.num_ranks;
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
  find_last_uses();
}

// Rows of the network's inputs, or of outputs with as many.
Placement Planner::caller_cut(Shape const& shape) const {
  std::int64_t const axis = static_cast<std::int64_t>(shape.size()) + options_.field_axis;
  if (axis < 0 || shape[index(axis)] < 1) {
    return std::nullopt;
  }
  if (shape[index(axis)] == rows_ && !options_.bounds.empty()) {
    return Cut{axis, rows_, options_.bounds};
  }
  return balanced_cut(axis, shape[index(axis)], options_.num_ranks);
}

void Planner::place_inputs(ExportedGraph const& program) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    auto const* tensor = std::get_if<TensorRef>(&plan_.graph.inputs[i]);
    if (tensor == nullptr) {
      continue;
    }
    Shape const& shape = plan_.shapes[index(tensor->value)];
    if (program.inputs[i].kind != InputSpec::Kind::user) {
      weights_.push_back(tensor->value);
      states_[0].copies[tensor->value].insert(Placement());
      continue;
    }
    if (rows_ == 0 && static_cast<std::int64_t>(shape.size()) + options_.field_axis >= 0) {
      rows_ = shape[shape.size() - index(-options_.field_axis)];
      auto const& bounds = options_.bounds;
      if (!bounds.empty() && (bounds.front() != 0 || bounds.back() != rows_ || !std::ranges::is_sorted(bounds) ||
                              static_cast<std::int64_t>(bounds.size()) != options_.num_ranks + 1)) {
        throw Error(Fault::input, "BadCuts",
                    "the bounds of the cut must rise from 0 to " + std::to_string(rows_) + " in " +
                        std::to_string(options_.num_ranks) + " shares");
      }
    }
    field_[index(tensor->value)] = true;
    plan_.inputs[index(tensor->value)] = caller_cut(shape);
    states_[0].copies[tensor->value].insert(plan_.inputs[index(tensor->value)]);
  }
}

void Planner::find_last_uses() {
  last_use_.assign(plan_.graph.values.size(), 0);
  auto const note = [&](Argument const& argument, std::size_t node) {
    if (auto const* tensor = std::get_if<TensorRef>(&argument)) {
      last_use_[index(tensor->value)] = node;
    } else if (auto const* tensors = std::get_if<Tensors>(&argument)) {
      for (TensorRef const& one : *tensors) {
        last_use_[index(one.value)] = node;
      }
    } else if (auto const* optional = std::get_if<OptionalTensors>(&argument)) {
      for (auto const& one : *optional) {
        if (one) {
          last_use_[index(one->value)] = node;
        }
      }
    }
  };
  for (std::size_t node = 0; node < plan_.graph.nodes.size(); ++node) {
    for (NamedArgument const& input : plan_.graph.nodes[node].inputs) {
      note(input.value, node);
    }
  }
  for (Argument const& output : plan_.graph.outputs) {
    note(output, plan_.graph.nodes.size());
  }
}

// Takes the transfer from the cheapest place where the value is.
void Planner::fetch(State& state, Transfer& transfer) const {
  Transfer best;
  double cost = -1;
  for (Placement const& from : state.copies.at(transfer.value)) {
    transfer.from = from;
    detail::count(transfer, plan_.shapes[index(transfer.value)], item(transfer.value), options_.num_ranks);
    double const own =
        static_cast<double>(std::ranges::max(transfer.bytes)) + message_cost * static_cast<double>(transfer.messages);
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

void Planner::add(State const& state, NodePlan node, NodeRule const& rule, std::vector<State>& next) const {
  State extended = state;
  for (Transfer& transfer : node.tensors) {
    bool const was_cut = !extended.copies.at(transfer.value).contains(Placement());
    fetch(extended, transfer);
    node.gathered |= options_.num_ranks > 1 && was_cut && transfer.axis < 0 && !transfer.to;
  }
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < options_.num_ranks; ++rank) {
    node.local_sizes.push_back(local_shape(rule.result_shapes[0], node.placement, rank));
    most = std::max(most, num_elements(node.local_sizes.back()));
  }
  double const work =
      work_cost * static_cast<double>(most) *
      (rule.view ? 0.0 : 2.0 * static_cast<double>(item(rule.results[0])) + static_cast<double>(rule.operations) / 4.0);
  bool const repeated = node.field && !node.placement && !node.sum_over_ranks;
  extended.cost += node.field ? work * (repeated ? replicated_cost : 1.0) : 0.0;
  if (options_.num_ranks > 1 && (node.sum_over_ranks || node.mode == AxisRule::Mode::statistic)) {
    node.statistics_bytes = rule.statistics * item(rule.results[0]);
    extended.cost += 2.0 * static_cast<double>(node.statistics_bytes) + 2.0 * message_cost;
  }
  for (ValueId const id : rule.tensors) {
    if (last_use_[index(id)] <= index(node.node)) {
      extended.copies.erase(id);
    }
  }
  for (ValueId const id : rule.results) {
    extended.copies[id] = {node.placement};
  }
  extended.last = std::make_shared<Decision const>(Decision{std::move(node), state.last});
  next.push_back(std::move(extended));
}

void Planner::add_cuts(State const& state, std::size_t node, NodeRule const& rule, std::vector<State>& next) const {
  std::set<Cut> cuts;
  for (Cut const& cut : detail::fresh_cuts(rule, options_.num_ranks)) {
    cuts.insert(cut);
  }
  for (std::size_t i = 0; i < rule.tensors.size(); ++i) {
    for (Placement const& placement : state.copies.at(rule.tensors[i])) {
      if (placement) {
        for (Cut const& cut : detail::cuts_after(rule, i, *placement)) {
          cuts.insert(cut);
        }
      }
    }
  }
  for (Cut const& cut : cuts) {
    auto transfers = detail::needs(rule, cut);
    bool const alike = std::ranges::all_of(rule.result_shapes, [&](Shape const& shape) {
      return index(cut.axis) < shape.size() && shape[index(cut.axis)] == rule.result_shapes[0][index(cut.axis)];
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
      for (Placement const& placement : state.copies.at(rule.tensors[i])) {
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
      throw Error(Fault::input, "RefusedProgram",
                  "refused: " + plan_.graph.nodes[node].describe() + ": every rank needs the whole of '" +
                      plan_.graph.value(transfer.value).name + "' and would receive " + std::to_string(bytes) +
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

void Planner::end_outputs(State& state, std::vector<Transfer>& outputs) const {
  for (Argument const& output : plan_.graph.outputs) {
    if (auto const* tensor = std::get_if<TensorRef>(&output)) {
      Transfer transfer;
      transfer.value = tensor->value;
      transfer.to = field_[index(tensor->value)] ? caller_cut(plan_.shapes[index(tensor->value)]) : Placement();
      fetch(state, transfer);
      outputs.push_back(std::move(transfer));
    }
  }
}

void Planner::count_memory() {
  std::size_t const ranks = index(options_.num_ranks);
  plan_.weights_bytes.assign(ranks, 0);
  plan_.activation_bytes.assign(ranks, 0);
  plan_.received_bytes.assign(ranks, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (ValueId const id : weights_) {
      plan_.weights_bytes[rank] += num_elements(plan_.shapes[index(id)]) * item(id);
    }
    for (NodePlan const& node : plan_.nodes) {
      auto const rule = node_rule(plan_.graph, plan_.graph.nodes[index(node.node)], *sizes_);
      for (std::size_t i = 0; i < rule->results.size() && !rule->view; ++i) {
        plan_.activation_bytes[rank] +=
            num_elements(local_shape(rule->result_shapes[i], node.placement, static_cast<std::int64_t>(rank))) *
            item(rule->results[i]);
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
  for (NodePlan const& node : plan_.nodes) {
    for (Transfer const& transfer : node.tensors) {
      plan_.messages += transfer.messages;
    }
    plan_.messages += node.statistics_bytes > 0 ? 1 : 0;
  }
  count_memory();
}

Plan Planner::plan() {
  for (std::size_t node = 0; node < plan_.graph.nodes.size(); ++node) {
    step(node);
  }
  finish();
  return std::move(plan_);
}

}  // namespace

Plan plan_layout(ExportedGraph const& program, Sizes const& sizes, PlanOptions const& options) {
  if (options.num_ranks < 1 || options.field_axis >= 0) {
    throw Error(Fault::input, "BadCuts", "a layout needs at least one rank, and an axis counted from the end");
  }
  return Planner(program, sizes, options).plan();
}

}  // namespace graticule::program
