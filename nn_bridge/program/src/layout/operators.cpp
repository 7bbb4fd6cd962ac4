// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/operators.hpp>

#include "graph/nodes.hpp"
#include "graph/number.hpp"
#include "node_shapes.hpp"

#include <algorithm>
#include <string>
#include <variant>

namespace graticule::program {

namespace {

using detail::base_name;
using detail::one_of;
using detail::refuse_node;

// Without the mark of operators in place and of copies of views ("permute_copy"), which no other name ends with.
std::string_view plain_name(std::string_view base) {
  constexpr std::string_view copy = "_copy";
  auto const is_view = [](std::string_view name) {
    auto const* const entry = detail::find_entry(name);
    return entry != nullptr && (entry->kind == OperatorClass::view ||
                                one_of(name, {"alias", "detach", "view_as_complex", "view_as_real", "unfold"}));
  };
  if (detail::find_entry(base) != nullptr) {
    return base;
  }
  if (base.ends_with(copy) && is_view(base.substr(0, base.size() - copy.size()))) {
    return base.substr(0, base.size() - copy.size());
  }
  return base.size() > 1 && base.ends_with('_') ? base.substr(0, base.size() - 1) : base;
}

std::string reason(std::string_view target) {
  std::string_view base = base_name(target);
  base = base.size() > 1 && base.ends_with('_') ? base.substr(0, base.size() - 1) : base;
  if (target.starts_with("higher_order.")) {
    return "control flow and other operators on graphs are not run; write the network without them, or export the "
           "branch that is used";
  }
  if (target.starts_with("torch_nn._linear_cross_entropy")) {
    return "the loss in chunks is not run; call torch.nn.functional.cross_entropy of torch.nn.functional.linear";
  }
  if (!target.starts_with("aten.")) {
    return "it is no operator of PyTorch (of packages, torch-harmonics' are known to shard_program and in files); "
           "replace the module by one of PyTorch's layers";
  }
  if (one_of(base,
             {"nonzero", "item", "_local_scalar_dense", "masked_select", "unique", "_unique2", "unique_dim", "bincount",
              "_assert_async", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size"})) {
    return "shapes or branches that depend on data are not run; compute masks by torch.where, and remove assertions on "
           "values";
  }
  if (base.starts_with("as_strided") || base.starts_with("resize")) {
    return "it addresses the memory of a tensor, of which a rank has a part; take cells by slices, reshape or unfold";
  }
  if (base.starts_with("rand") ||
      one_of(base, {"bernoulli", "multinomial", "normal", "uniform", "exponential", "poisson", "alpha_dropout",
                    "feature_dropout", "feature_alpha_dropout", "rrelu", "rrelu_with_noise"})) {
    return "of the random operators dropout, bernoulli, rand, randn, uniform and normal are run; give other noise as "
           "an input "
           "of the network";
  }
  return "it has no rule here (docs/programs.md lists the operators that have one): compute it from those, or outside "
         "of "
         "the network; a file may have it for lack of run_decompositions({})";
}

// index.Tensor by a mask has as many results as the mask has ones.
void check_index(Graph const& graph, Node const& node) {
  auto const* const tensors = std::get_if<OptionalTensors>(node.input("indices"));
  if (tensors == nullptr) {
    return;
  }
  for (auto const& tensor : *tensors) {
    if (tensor && one_of(name(graph.value(tensor->value).tensor.dtype), {"boolean", "u8"})) {
      refuse_node(node, "an index by a mask has a shape that depends on data; use torch.where");
    }
  }
}

void check_graph(Graph const& graph) {
  for (Node const& node : graph.nodes) {
    auto const kind = operator_class(node.target);
    if (!kind) {
      refuse_node(node, reason(node.target));
    }
    if (node.target == "aten.index.Tensor") {
      check_index(graph, node);
    }
    for (NamedArgument const& input : node.inputs) {
      if (auto const* unsupported = std::get_if<Unsupported>(&input.value)) {
        refuse_node(node, "the argument '" + input.name + "' is of the kind '" + unsupported->kind + "'");
      }
      if (auto const* subgraph = std::get_if<SubgraphRef>(&input.value)) {
        if (kind != OperatorClass::subgraph) {
          refuse_node(node, "it takes a graph as argument '" + input.name + "'");
        }
        check_graph(*subgraph->graph);
      }
    }
  }
}

}  // namespace

std::string_view name(OperatorClass kind) {
  switch (kind) {
    case OperatorClass::local: return "local";
    case OperatorClass::view: return "view";
    case OperatorClass::stencil: return "stencil";
    case OperatorClass::statistic: return "statistic";
    case OperatorClass::contraction: return "contraction";
    case OperatorClass::spectral: return "spectral";
    case OperatorClass::table: return "table";
    case OperatorClass::factory: return "factory";
    case OperatorClass::number: return "number";
    case OperatorClass::check: return "check";
    case OperatorClass::subgraph: return "subgraph";
  }
  return "unknown";
}

std::optional<OperatorClass> operator_class(std::string_view target) {
  if (target == "higher_order.wrap_with_autocast" || target == "higher_order.wrap_with_set_grad_enabled") {
    return OperatorClass::subgraph;
  }
  if (detail::find_arithmetic(target) != nullptr) {
    return OperatorClass::number;
  }
  auto const* const entry = detail::find_operator(target);
  return entry == nullptr ? std::nullopt : std::optional(entry->kind);
}

detail::OperatorEntry const* detail::find_operator(std::string_view target) {
  if (target.starts_with("aten.")) {
    std::string_view const base = base_name(target);
    return base.empty() ? nullptr : find_entry(plain_name(base));
  }
  std::string_view const name = target.substr(0, std::min(target.rfind('.'), target.size()));
  return name.find('.') == std::string_view::npos ? nullptr : find_entry(name);
}

std::string_view detail::operator_name(std::string_view target) {
  std::string_view const base = base_name(target);
  return base.empty() ? target : plain_name(base);
}

void detail::check_operators(ExportedGraph const& program) {
  check_graph(program.graph);
  for (OutputSpec const& output : program.outputs) {
    if (output.kind == OutputSpec::Kind::parameter_mutation) {
      throw Error(
          Fault::input, "RefusedProgram",
          "refused: the program overwrites the parameter '" + output.name + "'; make it a buffer before the export");
    }
  }
}

}  // namespace graticule::program
