// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "rules.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>

namespace graticule::program {

namespace {

bool flag_at(Node const& node, std::size_t place) {
  auto const* const flag = place < node.inputs.size() ? std::get_if<bool>(&node.inputs[place].value) : nullptr;
  return flag == nullptr || *flag;
}

// (device, type or none, enabled, cached, graph, operands...)
Node::Casts casts_of(Node const& node) {
  auto const* const dtype = node.inputs.size() > 1 ? std::get_if<Dtype>(&node.inputs[1].value) : nullptr;
  return {.enabled = flag_at(node, 2), .dtype = dtype == nullptr ? Dtype::unknown : *dtype, .cached = flag_at(node, 3)};
}

/// Copies graphs node by node into one.
class Inliner {
 public:
  Graph result;

  void copy(Graph const& graph, std::map<ValueId, ValueId>& ids) {
    for (Node const& node : graph.nodes) {
      copy_node(graph, node, ids);
    }
  }

  ValueId copy_value(Graph const& graph, ValueId id, std::map<ValueId, ValueId>& ids) {
    auto const next = static_cast<ValueId>(result.values.size());
    result.values.push_back(graph.value(id));
    result.values.back().producer = -1;
    ids[id] = next;
    return next;
  }

  template <class Arguments>
  static void rename(Arguments& arguments, std::map<ValueId, ValueId> const& ids) {
    detail::visit_values(arguments, [&](ValueId& id) { id = ids.at(id); });
  }

 private:
  void run_subgraph(Graph const& graph, Node const& node, std::size_t place, std::map<ValueId, ValueId>& ids) {
    Graph const& inner = *std::get<SubgraphRef>(node.inputs[place].value).graph;
    if (node.inputs.size() - place - 1 != inner.inputs.size() || node.outputs.size() > inner.outputs.size()) {
      detail::refuse_node(node, "arguments of its graph do not match");
    }
    std::map<ValueId, ValueId> own;
    auto const match = [&](Argument const& from, Argument const& to, auto const& apply) {
      std::vector<ValueId> first;
      std::vector<ValueId> second;
      detail::visit_values(from, [&](ValueId id) { first.push_back(id); });
      detail::visit_values(to, [&](ValueId id) { second.push_back(id); });
      for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
        apply(first[i], second[i]);
      }
    };
    for (std::size_t i = 0; i < inner.inputs.size(); ++i) {
      match(node.inputs[place + 1 + i].value, inner.inputs[i],
            [&](ValueId outer, ValueId id) { own[id] = ids.at(outer); });
    }
    auto const before = casts_;
    if (node.target == "higher_order.wrap_with_autocast") {
      casts_ = casts_of(node);
    }
    copy(inner, own);
    bool const without_gradients = node.target == "higher_order.wrap_with_set_grad_enabled" && !flag_at(node, 0);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      match(node.outputs[i], inner.outputs[i], [&](ValueId outer, ValueId id) {
        bool const tensor = graph.value(outer).kind == Value::Kind::tensor;
        ids[outer] = tensor && without_gradients ? detached(node, own.at(id)) : own.at(id);
      });
    }
    casts_ = before;
  }

  // What leaves a part without gradients has none.
  ValueId detached(Node const& node, ValueId source) {
    Value value = result.value(source);
    Node origin = node;
    origin.casts = casts_;
    origin.region = value.producer < 0 ? std::nullopt : result.nodes[static_cast<std::size_t>(value.producer)].region;
    value.name += "_detached" + std::to_string(result.values.size());
    return detail::append_node(result, std::move(origin), "aten.detach.default",
                               {NamedArgument{.name = "self", .value = TensorRef{source}}}, std::move(value));
  }

  void copy_node(Graph const& graph, Node const& node, std::map<ValueId, ValueId>& ids) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (std::holds_alternative<SubgraphRef>(node.inputs[i].value)) {
        run_subgraph(graph, node, i, ids);
        return;
      }
    }
    Node copy = node;
    copy.casts = casts_;
    rename(copy.inputs, ids);
    auto const producer = static_cast<NodeId>(result.nodes.size());
    detail::visit_values(copy.outputs, [&](ValueId& id) {
      id = copy_value(graph, id, ids);
      result.values[static_cast<std::size_t>(id)].producer = producer;
    });
    result.nodes.push_back(std::move(copy));
  }

  std::optional<Node::Casts> casts_;  // around the nodes that are copied
};

}  // namespace

Graph inlined(Graph const& graph) {
  Inliner inliner;
  std::map<ValueId, ValueId> ids;
  detail::visit_values(graph.inputs, [&](ValueId id) { (void)inliner.copy_value(graph, id, ids); });
  inliner.copy(graph, ids);
  inliner.result.inputs = graph.inputs;
  inliner.result.outputs = graph.outputs;
  Inliner::rename(inliner.result.inputs, ids);
  Inliner::rename(inliner.result.outputs, ids);
  return std::move(inliner.result);
}

}  // namespace graticule::program
