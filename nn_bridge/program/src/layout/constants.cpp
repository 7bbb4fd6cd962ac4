// SPDX-License-Identifier: BSD-3-Clause
#include "constants.hpp"

#include <graticule/program/detail/operators.hpp>

#include "node_shapes.hpp"
#include "strategy.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
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

bool may_run_on_parts(NodePlan const& node, NodeRule const& rule, Node const& operation, Cut const& cut) {
  return !node.sum_over_ranks && !rule.view && rule.results.size() == 1 && !in_place(operation.target) &&
         operator_class(operation.target) == OperatorClass::local &&
         rule.axes.at(static_cast<std::size_t>(cut.axis)).mode == RunMode::same;
}

}  // namespace

void cut_constants(Plan& plan, Sizes const& sizes) {
  auto const uses = uses_of(plan);
  for (auto node = plan.nodes.rbegin(); node != plan.nodes.rend(); ++node) {
    auto const& operation = plan.graph.nodes[static_cast<std::size_t>(node->node)];
    if (node->field || node->placement) continue;
    auto const rule = node_rule(plan.graph, operation, sizes);
    auto const found = uses.find(rule->results.front());
    auto const cut = found == uses.end() ? Placement() : wanted_cut(found->second);
    if (!cut || !may_run_on_parts(*node, *rule, operation, *cut)) continue;
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
