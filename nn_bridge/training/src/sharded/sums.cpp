// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>

#include "engine.hpp"

#include <algorithm>
#include <map>

namespace graticule::training::detail {

namespace {

/// Sums gradients of shards over a team of ranks that have the same rows. One that no rank has stays undefined.
void sum_over_replicas(nn::TeamRule const& rule, std::vector<ShardedParameter*> const& parameters) {
  auto const& comm = rule.team;
  if (comm.num_ranks() == 1) return;
  // Of all parameters: whether any rank has a gradient, then whether any rank has it on the host.
  std::vector<Index> found;
  for (auto const* parameter : parameters) found.push_back(parameter->reduced.defined() ? 1 : 0);
  for (auto const* parameter : parameters) found.push_back(parameter->shard.is_cpu() ? 1 : 0);
  comm.max(found);
  struct Group {
    std::vector<ShardedParameter*> members;
    nn::detail::AddedOn added_on = nn::detail::AddedOn::device;
  };
  std::map<torch::ScalarType, Group> by_dtype;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (found[i] == 0) continue;
    auto& parameter = *parameters[i];
    if (!parameter.reduced.defined())
      parameter.reduced = torch::zeros(parameter.shard.sizes(), parameter.shard.options().requires_grad(false));
    auto& group = by_dtype[parameter.reduced.scalar_type()];
    group.members.push_back(&parameter);
    if (found[parameters.size() + i] != 0) group.added_on = nn::detail::AddedOn::host;
  }
  for (auto const& [dtype, group] : by_dtype) {
    std::vector<torch::Tensor> parts;
    for (auto const* parameter : group.members) parts.push_back(parameter->reduced.view({-1}));
    auto flat = torch::cat(parts);
    nn::detail::sum_in_place(comm, flat, group.added_on);
    if (rule.reduction == nn::Reduction::mean) flat.div_(comm.num_ranks());
    std::int64_t offset = 0;
    for (auto* parameter : group.members) {
      auto const count = parameter->shard.numel();
      nn::detail::keep_for_current_stream(parameter->reduced);
      parameter->reduced = flat.narrow(0, offset, count).clone().resize_(parameter->shard.sizes());
      offset += count;
    }
  }
}

}  // namespace

void ShardEngine::settle() {
  auto const all = parameters();
  for (auto* parameter : all) {
    auto const sum = sum_of(parameter->held, parameter->reduced);
    bool const waits = unsynchronised_.has_value();
    parameter->held = waits ? sum : torch::Tensor();
    parameter->reduced = waits ? torch::Tensor() : sum;
  }
  if (unsynchronised_) return;
  for (auto const& rule : options_.replicas) sum_over_replicas(rule, all);
  for (auto* parameter : all) {
    if (!parameter->reduced.defined()) continue;
    auto& gradient = parameter->shard.mutable_grad();
    if (gradient.defined())
      gradient.add_(parameter->reduced);
    else
      gradient = parameter->reduced;
    nn::detail::keep_for_current_stream(parameter->reduced);
    parameter->reduced = torch::Tensor();
  }
}

}  // namespace graticule::training::detail
