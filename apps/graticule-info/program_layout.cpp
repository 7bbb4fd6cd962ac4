// SPDX-License-Identifier: BSD-3-Clause
#include "program_layout.hpp"

#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/operators.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include "program_forecast.hpp"
#include "text.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>

namespace graticule::info {

namespace {

using program::Cut;
using program::Shape;
using program::Transfer;
using program::ValueId;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

double most(std::vector<std::int64_t> const& bytes) {
  return bytes.empty() ? 0.0 : static_cast<double>(*std::ranges::max_element(bytes));
}

/// Follows the cut along the nodes: what it is called, and what it costs.
class Reader {
 public:
  explicit Reader(program::Plan const& plan) : plan_(&plan) {
    for (std::size_t id = 0; id < plan.inputs.size(); ++id)
      if (auto const& cut = plan.inputs[id]) {
        bool const is_row = cut->axis == static_cast<std::int64_t>(plan.shapes[id].size()) - 2;
        names_[{ValueId(id), *cut}] = is_row ? "latitude" : "longitude";
        if (field_shape_.empty()) field_shape_ = plan.shapes[id];
      }
  }

  PlanNode read(program::NodePlan const& plan) {
    auto const& node = plan_->graph.nodes[index(plan.node)];
    auto const results = results_of(node);
    PlanNode result;
    result.module = node.module_path();
    auto const kind = program::operator_class(node.target);
    result.operator_class = kind ? std::string(name(*kind)) : "other";
    if (plan.field) {
      result.placement = placement(plan);
      result.shape = shape(results.front());
      if (plan.placement) result.cuts = {*plan.placement};
    }
    for (auto const& transfer : plan.tensors) add(transfer, result.traffic);
    if (plan.statistics_bytes > 0) {
      result.traffic.sum_bytes += 2 * double(plan.statistics_bytes);
      ++result.traffic.num_messages;
      ++result.traffic.num_sums;
    }
    result.work = {plan.operations, plan.touched_bytes, scores(plan), plan.field ? 3 : 1};
    if (kind != program::OperatorClass::view) keep(plan, results.front());
    result.memory_bytes = memory_.empty() ? 0 : *std::ranges::max_element(memory_);
    for (ValueId const id : results)
      if (plan.placement) names_[{id, *plan.placement}] = result.placement;
    return result;
  }

  static void add(Transfer const& transfer, PlanTraffic& traffic) {
    (transfer.axis < 0 ? traffic.move_bytes : traffic.halo_bytes) += most(transfer.bytes);
    traffic.num_messages += transfer.messages;
  }

 private:
  [[nodiscard]] Shape const& shape(ValueId id) const { return plan_->shapes[index(id)]; }

  /// Queries times keys of attention [..., queries, channels], [..., keys, channels], of the rank that has most.
  [[nodiscard]] double scores(program::NodePlan const& plan) const {
    auto const& target = plan_->graph.nodes[index(plan.node)].target;
    if (!target.starts_with("aten.scaled_dot_product_attention.") || plan.tensors.size() < 3) return 0;
    auto const& values = shape(plan.tensors[2].value);
    double queries = 0;
    for (auto const& local : plan.local_sizes)
      queries = std::max(queries, double(program::num_elements(local)) / double(std::max<Index>(1, local.back())));
    return queries * double(values[values.size() - 2]);
  }

  static std::vector<ValueId> results_of(program::Node const& node) {
    std::vector<ValueId> ids;
    for (auto const& output : node.outputs) {
      if (auto const* tensor = std::get_if<program::TensorRef>(&output)) ids.push_back(tensor->value);
      if (auto const* tensors = std::get_if<program::Tensors>(&output))
        for (auto const& one : *tensors) ids.push_back(one.value);
    }
    return ids;
  }

  /// What the node's result is cut along: the axis that its tensors are cut along.
  std::string placement(program::NodePlan const& plan) {
    if (!plan.placement) return plan.gathered ? "gathered" : plan.sum_over_ranks ? "summed" : "whole";
    for (auto const& transfer : plan.tensors) {
      if (transfer.axis >= 0 && transfer.from)
        return transfer.from->axis == transfer.axis ? name_of(transfer.value, *transfer.from)
                                                    : new_name(transfer.axis, shape(transfer.value));
      if (transfer.axis >= 0 || !transfer.from || !transfer.to) continue;
      bool const stays = transfer.from->axis == transfer.to->axis && transfer.from->period == transfer.to->period;
      auto const name = stays ? name_of(transfer.value, *transfer.from)
                        : transfer.to->period < shape(transfer.value)[index(transfer.to->axis)]
                            ? "places in windows"
                            : new_name(transfer.to->axis, shape(transfer.value));
      return names_[{transfer.value, *transfer.to}] = name;
    }
    return new_name(plan.placement->axis, shape(results_of(plan_->graph.nodes[index(plan.node)]).front()));
  }

  [[nodiscard]] std::string name_of(ValueId id, Cut const& cut) const {
    auto const found = names_.find({id, cut});
    return found == names_.end() ? new_name(cut.axis, shape(id)) : found->second;
  }

  /// The name of an axis that a move chooses: by its extent, where that is the rows or columns of the network's input
  /// and not both. A tensor of as many axes and the same ratio of rows to columns is taken for a coarser field.
  [[nodiscard]] std::string new_name(std::int64_t axis, Shape const& tensor) const {
    auto const from_end = static_cast<std::int64_t>(tensor.size()) - axis;
    auto const num = field_shape_.size();
    if (num >= 2 && axis > 0 && field_shape_[num - 2] != field_shape_[num - 1]) {
      bool const like_input = tensor.size() == num;
      if (tensor[index(axis)] == field_shape_[num - 2] && (!like_input || from_end == 2)) return "latitude";
      if (tensor[index(axis)] == field_shape_[num - 1] && (!like_input || from_end == 1)) return "longitude";
    }
    bool const is_field = tensor.size() == num && num >= 3 &&
                          std::abs(tensor[num - 2] * field_shape_[num - 1] - tensor[num - 1] * field_shape_[num - 2]) <=
                              2 * std::max(field_shape_[num - 2], field_shape_[num - 1]);
    if (is_field && from_end == 2) return "latitude";
    if (is_field && from_end == 1) return "longitude";
    return axis == 1 && tensor.size() > 2 ? "channels or heads" : "axis " + std::to_string(axis);
  }

  void keep(program::NodePlan const& plan, ValueId id) {
    memory_.resize(plan.local_sizes.size());
    auto const bytes = double(item_bytes(plan_->graph.value(id).tensor.dtype));
    for (std::size_t rank = 0; rank < memory_.size(); ++rank)
      memory_[rank] += bytes * double(program::num_elements(plan.local_sizes[rank]));
  }

  program::Plan const* plan_;
  std::map<std::pair<ValueId, Cut>, std::string> names_;  ///< what the cut of a value is called
  std::vector<double> memory_;                            ///< per rank: results so far
  Shape field_shape_;                                     ///< of the first input that is cut
};

std::vector<std::pair<std::string, std::string>> facts_of(program::Plan const& plan) {
  auto const gathered = std::ranges::count_if(plan.nodes, &program::NodePlan::gathered);
  auto const total = double(std::reduce(plan.activation_bytes.begin(), plan.activation_bytes.end()));
  auto const fullest = most(plan.activation_bytes);
  std::vector<std::pair<std::string, std::string>> facts{
      {"weights and constants of a rank", bytes_text(most(plan.weights_bytes))},
      {"activations, fullest rank", bytes_text(fullest)},
      {"fullest to mean", total > 0 ? rounded_text(fullest * double(plan.num_ranks) / total, 2) : "-"},
      {"received, busiest rank", bytes_text(most(plan.received_bytes))}};
  if (!plan.block_bytes.empty())
    facts.emplace_back("of these from blocks and back", bytes_text(most(plan.block_bytes)));
  if (plan.num_parts > 0)
    facts.emplace_back("parts computed again, the largest",
                       std::to_string(plan.num_parts) + ", " + bytes_text(most(plan.recomputed_bytes)));
  if (!plan.kept_parts.empty())
    facts.emplace_back("parts to compute again that are kept", std::to_string(plan.kept_parts.size()));
  facts.emplace_back("messages", std::to_string(plan.messages));
  facts.emplace_back("gathered values", std::to_string(gathered));
  return facts;
}

/// What a rank that has a part of a value receives because a node needs all of it; the largest first.
std::vector<PlanGather> gathers_of(program::Plan const& plan) {
  std::vector<PlanGather> gathers;
  for (auto const& node : plan.nodes)
    for (auto const& transfer : node.tensors)
      if (node.gathered && transfer.axis < 0 && !transfer.to && transfer.from)
        gathers.push_back({.value = plan.graph.value(transfer.value).name,
                           .shape = plan.shapes[index(transfer.value)],
                           .where = plan.graph.nodes[index(node.node)].describe(),
                           .bytes = most(transfer.bytes)});
  std::ranges::stable_sort(gathers, std::greater(), &PlanGather::bytes);
  return gathers;
}

/// "refused: WHERE: REASON; ADVICE", as the layout pass words it.
PlanRefusal refusal_of(std::string text) {
  if (text.starts_with("refused: ")) text = text.substr(9);
  auto const where = std::min(text.find(": "), text.size());
  auto const advice = text.rfind("; ");
  PlanRefusal refusal{.where = text.substr(0, where), .reason = "", .advice = ""};
  if (where == text.size()) return refusal;
  bool const has_advice = advice != std::string::npos && advice > where;
  refusal.reason = text.substr(where + 2, has_advice ? advice - where - 2 : std::string::npos);
  if (has_advice) refusal.advice = text.substr(advice + 2);
  return refusal;
}

program::Sizes sizes_of(program::ExportedGraph const& network, Options const& options) {
  if (options.grid.empty()) return program::Sizes(network);
  auto const grid = parse_extents("--grid", options.grid, 1);
  program::Sizes const exported(network);
  std::vector<Shape> shapes;
  for (ValueId const id : program::user_inputs(network)) {
    auto shape = exported(network.graph.value(id).tensor).value_or(Shape{});
    if (shape.size() >= 3) {
      shape[shape.size() - 2] = grid[0];
      shape[shape.size() - 1] = grid[1];
    }
    shapes.push_back(std::move(shape));
  }
  return program::Sizes(network, shapes);
}

/// Of the first field; latitude is the second axis from the end.
Indices extents_of(program::ExportedGraph const& network, program::Sizes const& sizes) {
  if (auto const first = program::first_field(network)) {
    auto const& tensor = network.graph.value(program::user_inputs(network)[*first]).tensor;
    if (auto const shape = sizes(tensor)) return {(*shape)[shape->size() - 2], (*shape)[shape->size() - 1]};
  }
  throw Error(Fault::input, "RefusedProgram", "the network has no input with rows and columns to cut");
}

/// Those of `--cuts` along one axis, or balanced ones.
std::vector<std::int64_t> bounds_of(std::optional<Cuts> const& given, int axis, Index extent, Index num_parts,
                                    Options const& options) {
  if (!given) return program::Cut::balanced(axis, extent, num_parts).bounds;
  if (given->num_parts() != num_parts)
    throw Error(Fault::usage, "BadCuts",
                "--cuts " + options.cuts + " has " + std::to_string(given->num_parts()) + " parts of " +
                    (axis == 0 ? "rows" : "columns") + ", the ranks " + std::to_string(num_parts) +
                    "; --partition gives ranks along both axes");
  std::vector<std::int64_t> bounds{0};
  for (int part = 0; part < num_parts; ++part) bounds.push_back(bounds.back() + given->size(part));
  return bounds;
}

program::BlockCuts block_cuts(Comm const& comm, Indices const& extents, Options const& options,
                              ProcessGrid const& grid) {
  auto const choice = parse_cut_choice(comm, options.cuts, extents);
  if (choice.by_area)
    throw Error(Fault::usage, "BadCuts", "--cuts " + options.cuts + ": a network is cut by lists of rows and columns");
  return {.rows = bounds_of(choice.given[0], 0, extents[0], grid.extent(0), options),
          .columns = bounds_of(choice.given[1], 1, extents[1], grid.extent(1), options)};
}

program::PlanOptions plan_options(Comm const& comm, Indices const& extents, Options const& options) {
  program::PlanOptions result;
  result.num_ranks = options.num_ranks;
  result.costs = costs_of(options);
  auto const grid = process_grid(options, options.num_ranks);
  auto const cuts = block_cuts(comm, extents, options, grid);
  bool const columns = grid.extent(1) > 1;
  if (columns && grid.extent(0) > 1) {
    result.blocks = cuts;
    return result;
  }
  result.field_axis = columns ? -1 : -2;
  result.bounds = columns ? cuts.columns : cuts.rows;
  return result;
}

void fill_report(ProgramPlan const& shown, program::Plan const* plan, app::Report& report) {
  auto& data = report.data()["layout"];
  data["num_virtual_ranks"] = shown.num_ranks;
  data["refused"] = !shown.refusals.empty();
  if (plan == nullptr) return;
  data["weights_bytes"] = plan->weights_bytes;
  data["activation_bytes"] = plan->activation_bytes;
  data["recomputed_bytes"] = plan->recomputed_bytes;
  data["recomputed_parts"] = plan->num_parts;
  data["kept_parts"] = plan->kept_parts;
  data["received_bytes"] = plan->received_bytes;
  if (!plan->block_bytes.empty()) data["block_bytes"] = plan->block_bytes;
  data["messages"] = plan->messages;
  data["gathers"] = app::Report::Json::array();
  for (auto const& gather : shown.gathers)
    data["gathers"].push_back(
        {{"value", gather.value}, {"shape", gather.shape}, {"node", gather.where}, {"bytes", gather.bytes}});
  data["stages"] = app::Report::Json::array();
  for (auto const& stage : shown.stages)
    data["stages"].push_back({{"module", stage.module},
                              {"nodes", stage.num_nodes},
                              {"cut", stage.placement},
                              {"shape", stage.shape},
                              {"moved_bytes", stage.traffic.move_bytes},
                              {"halo_bytes", stage.traffic.halo_bytes},
                              {"sum_bytes", stage.traffic.sum_bytes},
                              {"messages", stage.traffic.num_messages},
                              {"memory_bytes", stage.memory_bytes}});
}

void show(app::Context& context, ProgramPlan const& shown, program::Plan const* plan, Options const& options) {
  std::cout << to_text(shown);
  fill_report(shown, plan, context.report);
  run_agreed(context.comm, [&] {
    if (context.comm.rank() == 0 && !options.svg.empty()) write_complete_file(options.svg, to_svg(shown));
  });
}

}  // namespace

program::PlanCosts costs_of(Options const& options) {
  return options.layout == "divided" ? program::PlanCosts{.message = 0, .replicated = 1000} : program::PlanCosts{};
}

ProgramPlan readable(program::Plan const& plan, std::string const& network) {
  ProgramPlan result{.network = network,
                     .num_ranks = plan.num_ranks,
                     .facts = facts_of(plan),
                     .stages = {},
                     .gathers = {},
                     .refusals = {}};
  Reader reader(plan);
  std::vector<PlanNode> nodes;
  for (auto const& node : plan.nodes) nodes.push_back(reader.read(node));
  for (auto const& output : plan.outputs)
    if (!nodes.empty()) Reader::add(output, nodes.back().traffic);
  result.stages = stages_of(nodes);
  result.gathers = gathers_of(plan);
  return result;
}

ProcessGrid process_grid(Options const& options, int num_ranks) {
  auto partition = parse_partition(options.partition);
  if (options.partition == "auto") partition = {num_ranks, 1};
  for (int axis : {0, 1}) {
    auto const other = partition[1 - axis];
    if (partition[axis] == 0) partition[axis] = other == 0 ? 1 : num_ranks / other;
  }
  if (partition[0] * partition[1] != num_ranks)
    throw Error(Fault::usage, "BadOption",
                "--partition " + options.partition + " is not a grid of " + std::to_string(num_ranks) +
                    (num_ranks == 1 ? " rank" : " ranks"));
  return ProcessGrid{partition[0], partition[1]};
}

program::BlockCuts cuts_of_ranks(Comm const& comm, program::ExportedGraph const& network, Options const& options,
                                 ProcessGrid const& grid) {
  return block_cuts(comm, extents_of(network, sizes_of(network, options)), options, grid);
}

void show_layout(app::Context& context, program::ExportedGraph const& network, Options const& options) {
  auto const name = std::filesystem::path(options.file).filename().string();
  auto const sizes = sizes_of(network, options);
  auto const chosen = plan_options(context.comm, extents_of(network, sizes), options);
  try {
    auto const plan = program::plan_layout(network, sizes, chosen);
    show(context, readable(plan, name), &plan, options);
  } catch (Error const& error) {
    if (error.rule() != "RefusedProgram") throw;
    ProgramPlan refused{
        .network = name, .num_ranks = chosen.num_ranks, .facts = {}, .stages = {}, .gathers = {}, .refusals = {}};
    refused.refusals = {refusal_of(error.text())};
    show(context, refused, nullptr, options);
    throw;
  }
}

void show_forecast(app::Context& context, program::ExportedGraph const& network, Options const& options) {
  auto const name = std::filesystem::path(options.file).filename().string();
  auto const machine = read_machine(options.machine);
  auto const sizes = sizes_of(network, options);
  auto const plan_on = [&](int num_ranks) {
    auto on = options;
    on.num_ranks = num_ranks;
    return program::plan_layout(network, sizes, plan_options(context.comm, extents_of(network, sizes), on));
  };
  double scale = 1;
  if (options.step_seconds > 0) {
    auto alone = options;
    alone.partition = "auto";
    alone.cuts = "balanced";
    alone.num_ranks = 1;
    auto const plan =
        program::plan_layout(network, sizes, plan_options(context.comm, extents_of(network, sizes), alone));
    scale = options.step_seconds / forecast_of(plan, machine).compute;
  }
  auto ranks = options.ranks;
  if (ranks.size() < 2) ranks = {options.num_ranks};  // also of --partition
  if (std::ranges::any_of(ranks, [](int one) { return one < 1; }))
    throw Error(Fault::usage, "BadOption", "--ranks has 0 in a list; give numbers from 1 on");
  std::vector<Forecast> forecasts;
  auto progress = context.progress("forecasts", Index(ranks.size()));
  for (int const num_ranks : ranks) {
    progress.update(Index(forecasts.size()), std::to_string(num_ranks) + " ranks");
    try {
      forecasts.push_back(forecast_of(plan_on(num_ranks), machine, scale));
    } catch (Error const& error) {
      if (error.rule() != "RefusedProgram") throw;
      forecasts.push_back({.num_ranks = num_ranks, .refusal = error.text(), .stages = {}});
    }
  }
  std::cout << to_text(name, machine, forecasts);
  auto& data = context.report.data()["forecast"];
  data = app::Report::Json::array();
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    auto const& one = forecasts[i];
    if (!one.refusal.empty()) {
      data.push_back({{"num_ranks", one.num_ranks}, {"refused", one.refusal}});
      continue;
    }
    data.push_back({{"num_ranks", one.num_ranks},
                    {"step_seconds", one.step()},
                    {"compute_seconds", one.compute},
                    {"message_seconds", one.messages},
                    {"gradient_seconds", one.gradients},
                    {"efficiency", efficiency(forecasts, i)},
                    {"memory_bytes", one.memory_bytes},
                    {"limit", limit_of(forecasts, i)},
                    {"stages", app::Report::Json::array()}});
    for (auto const& stage : one.stages)
      data.back()["stages"].push_back(
          {{"stage", stage.name}, {"compute_seconds", stage.compute}, {"message_seconds", stage.messages}});
  }
  run_agreed(context.comm, [&] {
    if (context.comm.rank() == 0 && !options.svg.empty())
      write_complete_file(options.svg, to_svg(name, machine, forecasts));
  });
}

}  // namespace graticule::info
