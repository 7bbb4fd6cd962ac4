// SPDX-License-Identifier: BSD-3-Clause
#include "program_report.hpp"

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/program/detail/golden.hpp>
#include <graticule/program/detail/operators.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/program.hpp>
#include <graticule/program/sharded_program.hpp>

#include "program_layout.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <utility>
#include <variant>

namespace graticule::info {

namespace {

using app::Report;

std::string shape_text(program::TensorMeta const& tensor) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
    auto const& size = tensor.sizes[axis];
    text += (axis > 0 ? ", " : "") + std::to_string(size.value) + (size.symbolic() ? "*" : "");
  }
  return text + "] " + std::string(name(tensor.dtype));
}

void count_operators(program::Graph const& graph,
                     std::map<program::OperatorClass, std::map<std::string, int>>& counts) {
  for (auto const& node : graph.nodes) {
    if (auto const kind = program::operator_class(node.target)) ++counts[*kind][node.target];
    for (auto const& input : node.inputs)
      if (auto const* subgraph = std::get_if<program::SubgraphRef>(&input.value))
        count_operators(*subgraph->graph, counts);
  }
}

void print_tensors(char const* title, std::vector<std::pair<std::string, program::ValueId>> const& tensors,
                   program::Graph const& graph, Report::Json& report) {
  std::cout << title << "\n";
  bool dynamic = false;
  for (auto const& [tensor_name, id] : tensors) {
    auto const& meta = graph.value(id).tensor;
    std::cout << "  " << tensor_name << " " << shape_text(meta) << "\n";
    Report::Json sizes = Report::Json::array();
    for (auto const& size : meta.sizes) {
      sizes.push_back(size.value);
      dynamic = dynamic || size.symbolic();
    }
    report.push_back({{"name", tensor_name}, {"shape", sizes}, {"dtype", name(meta.dtype)}});
  }
  if (dynamic) std::cout << "  (*: dynamic, as exported)\n";
}

void print_interface(program::Program const& network, Report::Json& report) {
  auto const& graph = network->graph();
  std::vector<std::pair<std::string, program::ValueId>> inputs;
  for (auto const id : program::user_inputs(graph)) inputs.emplace_back(graph.graph.value(id).name, id);
  std::vector<std::pair<std::string, program::ValueId>> outputs;
  for (auto const& output : graph.outputs)
    if (auto const* tensor = std::get_if<program::TensorRef>(&output.value);
        tensor != nullptr && output.kind == program::OutputSpec::Kind::user)
      outputs.emplace_back(graph.graph.value(tensor->value).name, tensor->value);
  print_tensors("inputs", inputs, graph.graph, report["inputs"] = Report::Json::array());
  print_tensors("outputs", outputs, graph.graph, report["outputs"] = Report::Json::array());
}

void print_parameters(program::Program const& network, Report::Json& report) {
  std::int64_t numbers = 0;
  double bytes = 0;
  auto const parameters = network->parameters();
  for (auto const& parameter : parameters) {
    numbers += parameter.numel();
    bytes += double(parameter.nbytes());
  }
  std::cout << "parameters\n  " << parameters.size() << " tensors, " << numbers << " numbers, " << bytes_text(bytes)
            << "; " << network->buffers().size() << " buffers\n";
  report["parameters"] = {{"tensors", parameters.size()}, {"numbers", numbers}, {"bytes", bytes}};
}

void print_operators(program::Program const& network, Report::Json& report) {
  std::map<program::OperatorClass, std::map<std::string, int>> counts;
  count_operators(network->graph().graph, counts);
  std::cout << "operators\n";
  for (auto const& [kind, operators] : counts) {
    int total = 0;
    std::vector<std::pair<int, std::string>> ordered;
    for (auto const& [target, count] : operators) {
      total += count;
      ordered.emplace_back(-count, target);
    }
    std::sort(ordered.begin(), ordered.end());
    std::cout << "  " << name(kind) << " " << total << ":";
    for (auto const& [count, target] : ordered) {
      std::cout << " " << target << " " << -count;
      report["operators"][std::string(name(kind))][target] = -count;
    }
    std::cout << "\n";
  }
}

void print_difference(char const* what, int count, program::Difference const& difference) {
  std::cout << "  " << what << " (" << count << "): " << to_text(difference.largest);
  if (difference.largest > 0) std::cout << " at " << difference.at;
  std::cout << "\n";
}

/// What rounding may change in the narrowest type that the network computes with.
double tolerance_of(program::Graph const& graph) {
  double tolerance = 1e-4;
  for (auto const& value : graph.values) {
    if (value.kind != program::Value::Kind::tensor) continue;
    if (value.tensor.dtype == program::Dtype::f16) tolerance = std::max(tolerance, 5e-2);
    if (value.tensor.dtype == program::Dtype::bf16) tolerance = std::max(tolerance, 3e-1);
  }
  for (auto const& node : graph.nodes)
    for (auto const& input : node.inputs)
      if (auto const* subgraph = std::get_if<program::SubgraphRef>(&input.value))
        tolerance = std::max(tolerance, tolerance_of(*subgraph->graph));
  return tolerance;
}

/// Figures of a narrow type are no closer to anything than its rounding.
double default_tolerance(program::Program const& network, bool wide_figures, Options const& options) {
  return options.dtype == "f64" && wide_figures ? 1e-10 : tolerance_of(network->graph().graph);
}

std::string type_name(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kFloat64: return "f64";
    case torch::kFloat32: return "f32";
    case torch::kFloat16: return "f16";
    case torch::kBFloat16: return "bf16";
    default: return c10::toString(dtype);
  }
}

std::vector<Index> sizes_of(std::vector<std::int64_t> const& bounds) {
  std::vector<Index> sizes;
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part) sizes.push_back(bounds[part + 1] - bounds[part]);
  return sizes;
}

void print_sizes(char const* what, std::vector<Index> const& sizes) {
  std::cout << what;
  for (auto const size : sizes) std::cout << " " << size;
}

/// On several ranks each takes its part, as `--partition` and `--cuts` say.
program::GoldenDifferences compare(app::Context& context, program::Program const& network, Options const& options) {
  auto const& comm = context.comm;
  auto const grid = process_grid(options, comm.num_ranks());
  if (comm.num_ranks() == 1) return program::compare_with_golden(network, options.check);
  auto const cuts = cuts_of_ranks(comm, network->graph(), options, grid);
  nn::Domain const domain(comm, grid);
  program::ShardedProgram shards(network, domain, program::ShardOptions{.costs = costs_of(options)});
  auto const differences = program::compare_with_golden(shards, domain, cuts, options.check);
  auto const rows = sizes_of(cuts.rows);
  auto const columns = sizes_of(cuts.columns);
  std::cout << "on " << comm.num_ranks() << " ranks";
  print_sizes(" with rows", rows);
  if (columns.size() > 1) print_sizes(" and columns", columns);
  std::cout << "\n";
  context.report.data()["check_rows"] = rows;
  context.report.data()["check_columns"] = columns;
  return differences;
}

int check(app::Context& context, program::Program const& network, Options const& options) {
  program::GoldenDifferences differences;
  {
    auto const phase = context.report.phase("check");
    differences = compare(context, network, options);
  }
  double const tolerance =
      options.tolerance >= 0 ? options.tolerance : default_tolerance(network, differences.wide_figures, options);
  std::cout << "largest relative differences from " << options.check << " in " << type_name(network->dtype())
            << ", of which " << to_text(tolerance) << " is accepted\n";
  print_difference("outputs", differences.num_outputs, differences.outputs);
  print_difference("loss", 1, differences.loss);
  print_difference("parameter gradients", differences.num_parameters, differences.parameter_gradients);
  print_difference("input gradients", differences.num_inputs, differences.input_gradients);
  context.report.data()["check"] = {{"outputs", differences.outputs.largest},
                                    {"loss", differences.loss.largest},
                                    {"parameter_gradients", differences.parameter_gradients.largest},
                                    {"input_gradients", differences.input_gradients.largest}};
  if (differences.largest() <= tolerance) return app::good;
  throw Error(Fault::check, "CheckFailed",
              options.file + ": a relative difference of " + to_text(differences.largest()) + " from " + options.check +
                  " is above the tolerance of " + to_text(tolerance));
}

}  // namespace

void start_program_reader(int, char**) {}

int show_program(app::Context& context, Options const& given) {
  auto options = given;
  options.num_ranks = total_ranks(parse_partition(given.partition), given.num_ranks, given.partition);
  torch::set_num_threads(std::max(1, context.num_threads));
  program::Program network(nullptr);
  run_agreed(context.comm, [&] { network = program::Program(std::filesystem::path(options.file)); });
  auto& report = context.report.data()["program"];
  std::cout << options.file << ": exported by PyTorch " << network->graph().torch_version << ", schema "
            << network->graph().schema_major << "." << network->graph().schema_minor << ", "
            << network->graph().graph.nodes.size() << " nodes\n";
  print_interface(network, report);
  print_parameters(network, report);
  print_operators(network, report);
  if (!options.machine.empty())
    show_forecast(context, network->graph(), options);
  else if (options.num_ranks > 0)
    show_layout(context, network->graph(), options);
  if (options.check.empty()) return app::good;
  if (options.dtype == "f64") network->to(torch::kFloat64);
  return check(context, network, options);
}

}  // namespace graticule::info
