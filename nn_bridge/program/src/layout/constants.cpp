// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/operators.hpp>

#include "graph/nodes.hpp"
#include "node_shapes.hpp"
#include "passes.hpp"
#include "strategy.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <variant>
#include <vector>

namespace graticule::program::detail {

namespace {

/// Where a value goes: the transfers of nodes, and whether the caller gets it.
struct Uses {
  std::vector<Transfer*> transfers;
  bool of_caller = false;
};

std::map<ValueId, Uses> uses_of(Plan& plan) {
  std::map<ValueId, Uses> uses;
  for (NodePlan& node : plan.nodes)
    for (Transfer& transfer : node.tensors) uses[transfer.value].transfers.push_back(&transfer);
  for (Transfer const& transfer : plan.outputs) uses[transfer.value].of_caller = true;
  return uses;
}

/// The cut in which all nodes need the value, which is whole.
Placement wanted_cut(Uses const& uses) {
  if (uses.of_caller || uses.transfers.empty()) return {};
  auto const& wanted = uses.transfers.front()->to;
  bool const alike = std::ranges::all_of(uses.transfers, [&](Transfer const* transfer) {
    return transfer->axis < 0 && !transfer->from && transfer->to == wanted;
  });
  return alike ? wanted : Placement();
}

/// @param views whether the result may share memory with the tensors
bool may_run_on_parts(NodePlan const& node, NodeRule const& rule, Node const& operation, Cut const& cut, bool views) {
  if (node.sum_over_ranks || rule.results.size() != 1 || in_place(operation.target)) return false;
  if (rule.view) return views;
  auto const kind = operator_class(operation.target);
  bool const known =
      kind == OperatorClass::local || kind == OperatorClass::contraction || (views && kind == OperatorClass::view);
  return known && rule.axes.at(index(cut.axis)).mode == RunMode::same;
}

/// A part of a view of a weight would be out of date where the weight is written to.
bool overwrites(Graph const& graph) {
  return std::ranges::any_of(graph.nodes, [](Node const& node) { return in_place(node.target); });
}

/// Per value, whether it is a weight, or one under other axes, which takes no memory.
std::vector<bool> weights_as_they_are(Plan const& plan) {
  std::vector<bool> found(plan.graph.values.size(), false);
  for (Argument const& input : plan.graph.inputs)
    if (auto const* tensor = std::get_if<TensorRef>(&input)) found[index(tensor->value)] = true;
  auto const num_cells = [&](ValueId id) { return num_elements(plan.shapes[index(id)]); };
  for (NodePlan const& node : plan.nodes) {
    auto const& operation = plan.graph.nodes[index(node.node)];
    auto const* result = operation.outputs.size() == 1 ? std::get_if<TensorRef>(&operation.outputs[0]) : nullptr;
    if (result == nullptr || node.tensors.size() != 1 || operator_class(operation.target) != OperatorClass::view)
      continue;
    ValueId const source = node.tensors[0].value;
    found[index(result->value)] = found[index(source)] && num_cells(source) == num_cells(result->value);
  }
  return found;
}

}  // namespace

void cut_constants(Plan& plan, Sizes const& sizes) {
  bool const views = !overwrites(plan.graph);
  auto const weights = weights_as_they_are(plan);
  auto const uses = uses_of(plan);
  for (auto node = plan.nodes.rbegin(); node != plan.nodes.rend(); ++node) {
    auto const& operation = plan.graph.nodes[index(node->node)];
    if (node->field || node->placement) continue;
    auto const rule = node_rule(plan.graph, operation, sizes);
    if (weights[index(rule->results.front())]) continue;
    auto const found = uses.find(rule->results.front());
    auto const cut = found == uses.end() ? Placement() : wanted_cut(found->second);
    if (!cut || !may_run_on_parts(*node, *rule, operation, *cut, views)) continue;
    auto const transfers = needs(*rule, *cut);
    if (!transfers) continue;
    node->mode = RunMode::same;
    node->placement = cut;
    for (std::size_t rank = 0; rank < node->local_sizes.size(); ++rank)
      node->local_sizes[rank] = local_shape(rule->result_shapes[0], cut, static_cast<std::int64_t>(rank));
    for (std::size_t i = 0; i < transfers->size(); ++i) node->tensors[i].to = (*transfers)[i].to;
    for (Transfer* transfer : found->second.transfers) transfer->from = cut;
  }
}

}  // namespace graticule::program::detail
