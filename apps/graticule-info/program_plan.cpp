// SPDX-License-Identifier: BSD-3-Clause
#include "program_plan.hpp"

#include "text.hpp"

#include <algorithm>

namespace graticule::info {

namespace {

bool alike(program::Cut const& one, program::Cut const& other) {
  return one.period == other.period && one.bounds == other.bounds;
}

bool continues(PlanStage const& stage, PlanNode const& node) {
  return node.placement.empty() || stage.placement.empty() ||
         (stage.placement == node.placement &&
          std::equal(stage.cuts.begin(), stage.cuts.end(), node.cuts.begin(), node.cuts.end(), alike));
}

/// The common front of two dotted paths: "a.b" of "a.b.c" and "a.b.d".
std::string common_path(std::string const& one, std::string const& other) {
  std::size_t end = 0;
  for (std::size_t i = 0; i <= std::min(one.size(), other.size()); ++i) {
    bool const one_ends = i == one.size() || one[i] == '.';
    bool const other_ends = i == other.size() || other[i] == '.';
    if (one_ends && other_ends) end = i;
    if (i == one.size() || i == other.size() || one[i] != other[i]) break;
  }
  return one.substr(0, end);
}

void append(PlanStage& stage, PlanNode const& node) {
  bool const named = !node.placement.empty();
  stage.module = stage.num_nodes == 0 ? node.module : common_path(stage.module, node.module);
  if (named && (stage.placement.empty() || program::num_elements(node.shape) > program::num_elements(stage.shape))) {
    stage.shape = node.shape;
    stage.cuts = node.cuts;
  }
  if (named) stage.placement = node.placement;
  ++stage.num_nodes;
  ++stage.num_operators[node.operator_class];
  stage.traffic += node.traffic;
  if (node.work.bytes > 0) stage.works.push_back(node.work);
  stage.memory_bytes = std::max(stage.memory_bytes, node.memory_bytes);
}

std::string share_list(program::Cut const& cut, std::int64_t extent) {
  constexpr std::int64_t most_listed = 8;
  std::vector<std::int64_t> shares;
  for (std::int64_t rank = 0; rank < cut.num_ranks(); ++rank) shares.push_back(cut.owned_extent(extent, rank));
  if (cut.num_ranks() > most_listed) {
    auto const [least, most] = std::minmax_element(shares.begin(), shares.end());
    return *least == *most ? std::to_string(*most) : std::to_string(*least) + "-" + std::to_string(*most);
  }
  std::string text;
  for (auto const share : shares) text += (text.empty() ? "" : ",") + std::to_string(share);
  return text;
}

constexpr std::size_t most_listed_gathers = 8;

std::string bytes_or_dash(double bytes) { return bytes > 0 ? bytes_text(bytes) : "-"; }

}  // namespace

PlanTraffic& PlanTraffic::operator+=(PlanTraffic const& other) {
  move_bytes += other.move_bytes;
  halo_bytes += other.halo_bytes;
  sum_bytes += other.sum_bytes;
  num_messages += other.num_messages;
  num_sums += other.num_sums;
  return *this;
}

std::vector<PlanStage> stages_of(std::vector<PlanNode> const& nodes) {
  std::vector<PlanStage> stages;
  for (auto const& node : nodes) {
    if (stages.empty() || !continues(stages.back(), node)) stages.emplace_back();
    append(stages.back(), node);
  }
  return stages;
}

std::string shape_text(program::Shape const& shape) {
  std::string text;
  for (auto const extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

std::string shares_text(PlanStage const& stage) {
  std::string text;
  for (auto const& cut : stage.cuts)
    text += (text.empty() ? "" : " x ") + share_list(cut, stage.shape.at(std::size_t(cut.axis)));
  return text.empty() ? "all" : text;
}

std::string to_text(ProgramPlan const& plan) {
  std::string text =
      plan.network + " on " + std::to_string(plan.num_ranks) + (plan.num_ranks == 1 ? " rank\n" : " ranks\n");
  for (auto const& [name, value] : plan.facts) text += "  " + name + " " + value + "\n";
  if (!plan.stages.empty()) {
    std::vector<std::vector<std::string>> rows{
        {"stage", "nodes", "cut", "shape", "per rank", "moved", "halo", "sums", "messages", "memory"}};
    for (auto const& stage : plan.stages)
      rows.push_back({stage.module.empty() ? "-" : stage.module, std::to_string(stage.num_nodes), stage.placement,
                      shape_text(stage.shape), shares_text(stage), bytes_or_dash(stage.traffic.move_bytes),
                      bytes_or_dash(stage.traffic.halo_bytes), bytes_or_dash(stage.traffic.sum_bytes),
                      std::to_string(stage.traffic.num_messages), bytes_text(stage.memory_bytes)});
    text +=
        "stages; bytes of the busiest rank of each node, added; activations of the fullest rank\n" + table_text(rows);
  }
  for (std::size_t i = 0; i < plan.gathers.size(); ++i) {
    auto const& gather = plan.gathers[i];
    if (i == most_listed_gathers) {
      text += "... and " + std::to_string(plan.gathers.size() - i) + " smaller ones\n";
      break;
    }
    text += "gathered: " + gather.value + " " + shape_text(gather.shape) + ", " + bytes_text(gather.bytes) + " for " +
            gather.where + "\n";
  }
  for (auto const& refusal : plan.refusals)
    text += "refused: " + refusal.where + ": " + refusal.reason + "\n  " + refusal.advice + "\n";
  return text;
}

}  // namespace graticule::info
