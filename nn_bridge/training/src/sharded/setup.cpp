// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/training/detail/managed.hpp>

#include "engine.hpp"
#include "peer_reads.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <string_view>

namespace graticule::training::detail {

namespace {

void check_options(ShardedParametersOptions const& options, int num_ranks) {
  if (options.num_prefetched < 0)
    throw Error("BadOption", "num_prefetched must be at least 0, got " + std::to_string(options.num_prefetched));
  if (options.ranks_per_group < 1 || num_ranks % options.ranks_per_group != 0)
    throw Error("BadOption", "ranks_per_group must divide the team of " + std::to_string(num_ranks) + " ranks, got " +
                                 std::to_string(options.ranks_per_group));
  if (!std::isfinite(options.gradient_factor))
    throw Error("BadOption", "gradient_factor must be finite, got " + std::to_string(options.gradient_factor));
  auto const check = [](std::optional<torch::ScalarType> const& type, char const* what) {
    if (type && !at::isFloatingType(*type))
      throw Error("BadOption", std::string("the precision of ") + what + " must be a real floating-point type, got " +
                                   c10::toString(*type));
  };
  check(options.precision.parameters, "parameters");
  check(options.precision.gradients, "gradients");
  check(options.precision.buffers, "buffers");
}

/// Of what decides which messages are sent, and when.
std::uint64_t hash_of(UnitSearch const& found, ShardedParametersOptions const& options, nn::Reduction reduction) {
  Hash hash;
  for (auto const& unit : found.units) {
    hash.add(std::string_view(unit.name)).add(unit.parameters.size());
    for (auto const& [name, tensor] : unit.parameters) hash.add(std::string_view(name));
  }
  auto const add_type = [&](std::optional<torch::ScalarType> const& type) { hash.add(type ? int(*type) : -1); };
  add_type(options.precision.parameters);
  add_type(options.precision.gradients);
  add_type(options.precision.buffers);
  auto const add_lists = [&](auto const& lists) {
    for (auto const& [name, ahead] : lists) {
      hash.add(std::string_view(name)).add(ahead.size());
      for (auto const& other : ahead) hash.add(std::string_view(other));
    }
  };
  add_lists(options.ahead_in_forward);
  add_lists(options.ahead_in_backward);
  hash.add(int(options.between_passes)).add(int(options.root_between_passes)).add(options.num_prefetched);
  hash.add(int(options.unused)).add(int(reduction)).add(int(compares_calls(options.checks)));
  return hash.value();
}

/// Those of replicas, and the one that shares the parameters.
std::vector<Comm> teams_of(nn::TeamRule const& shards, ShardedParametersOptions const& options) {
  std::vector<Comm> teams;
  for (auto const& rule : options.replicas) teams.push_back(rule.team);
  teams.push_back(shards.team);
  return teams;
}

/// The values of the first rank of all teams, on all ranks. @param failure of this rank until now
void agree_on_values(std::vector<Comm> const& teams, UnitSearch const& found, nn::NamedTensors const& buffers,
                     std::exception_ptr failure) {
  nn::NamedTensors cut;
  for (auto const& unit : found.units) cut.insert(cut.end(), unit.parameters.begin(), unit.parameters.end());
  auto whole = found.ignored;
  whole.insert(whole.end(), buffers.begin(), buffers.end());
  for (auto const& team : teams) {
    nn::detail::attempt(failure, [&] { nn::detail::require_replicas(team, cut, nn::detail::ReplicaNeeds::gradients); });
    nn::detail::attempt(failure, [&] { nn::detail::require_replicas(team, whole); });
  }
  nn::detail::throw_agreed(teams, failure);
  for (auto const& team : teams) {
    nn::detail::broadcast_replicas(team, cut);
    nn::detail::broadcast_replicas(team, whole);
  }
}

}  // namespace

ShardEngine::ShardEngine(std::shared_ptr<torch::nn::Module> model, nn::TeamRule const& shards,
                         ShardedParametersOptions options)
    : model_(std::move(model)), options_(std::move(options)), team_{shards.team} {
  auto const teams = teams_of(shards, options_);
  std::exception_ptr failure;
  nn::detail::attempt(failure, [&] {
    check_options(options_, shards.team.num_ranks());
    if (model_) nn::detail::require_values(nn::detail::tensors_of(*model_));
    found_ = find_units(model_, options_);
    calls_.resize(found_.units.size());
    order_ = UnitOrder(found_.units, options_);
  });
  nn::detail::throw_agreed(teams, failure);
  auto const groups = [](BetweenPasses between) { return int(between == BetweenPasses::in_groups); };
  bool const has_groups = groups(options_.between_passes) + groups(options_.root_between_passes) > 0;
  nn::detail::attempt(failure, [&] {
    require_same(shards.team, "ArgumentDisagreement",
                 Hash()
                     .add(groups(options_.between_passes))
                     .add(groups(options_.root_between_passes))
                     .add(options_.ranks_per_group)
                     .value(),
                 (has_groups ? "groups of " : "no groups, of ") + std::to_string(options_.ranks_per_group) + " ranks");
    require_same(shards.team, "ArgumentDisagreement", hash_of(found_, options_, shards.reduction),
                 std::to_string(found_.units.size()) + " units and other options");
  });
  agree_on_values(teams, found_, nn::detail::buffers_of(*model_), failure);
  if (has_groups)
    group_.emplace(ShardTeam{shards.team.split(shards.team.rank() / options_.ranks_per_group, shards.team.rank())});
  bool const compares = compares_calls(options_.checks);
  if (compares) comparison_.emplace(shards.team);
  if (compares) team_.stall = messages::Stall::fail;
  if (group_) group_->stall = team_.stall;
  reduction_.factor = options_.gradient_factor;
  if (shards.reduction == nn::Reduction::mean) reduction_.factor /= shards.team.num_ranks();
  reduction_.dtype = options_.precision.gradients;
  reduction_.unused = options_.unused;
  for (auto const& unit : found_.units)
    units_.push_back(std::make_unique<ShardUnit>(team_, group_ ? &*group_ : nullptr, unit.name, unit.parameters,
                                                 options_.precision.parameters));
  if (auto const& type = options_.precision.buffers)
    for (auto const& [name, buffer] : nn::detail::buffers_of(*model_)) {
      auto held = buffer;
      if (!at::isFloatingType(held.scalar_type()) || held.scalar_type() == *type) continue;
      buffer_types_.emplace_back(held, held.scalar_type());
      held.set_data(held.to(*type));
    }
  mark_managed(model_, ParameterNames::original, options_.ignored);
}

std::vector<ShardedParameter*> ShardEngine::parameters() const {
  std::map<c10::TensorImpl const*, ShardedParameter*> by_leaf;
  for (auto const& unit : units_)
    for (auto& parameter : unit->parameters()) by_leaf.emplace(parameter.full.unsafeGetTensorImpl(), &parameter);
  std::vector<ShardedParameter*> result;
  for (auto const& [name, tensor] : nn::parameters_of(*model_)) {
    auto const found = by_leaf.find(tensor.unsafeGetTensorImpl());
    if (found != by_leaf.end()) result.push_back(found->second);
  }
  return result;
}

void ShardEngine::make_shared_buffers() {
  if (has_shared_buffers_) return;
  std::optional<torch::Device> device;
  std::vector<SharedBuffer::Size> of_team;
  std::vector<SharedBuffer::Size> of_group;
  SharedBuffer::Size gradients{0, PeerScatter::head_bytes};
  for (auto const& unit : units_) {
    auto const& parameters = unit->parameters();
    for (auto const& parameter : parameters) {
      if (!device) device = parameter.shard.device();
      if (*device != parameter.shard.device()) device = torch::kCPU;
    }
    of_team.push_back({PeerGather::plan(team_.comm, parameters).bytes});
    if (group_) of_group.push_back({PeerGather::plan(group_->comm, parameters).bytes});
    gradients.bytes = std::max(gradients.bytes, PeerScatter::plan(parameters, reduction_).bytes);
    gradients.host_bytes = std::max(gradients.host_bytes, PeerScatter::head_bytes + parameters.size());
  }
  of_team.push_back(gradients);
  auto const give = [&](Comm const& comm, std::vector<SharedBuffer::Size> const& sizes, ShardUnit::Source source) {
    auto buffers = SharedBuffer::make(comm, device.value_or(torch::kCPU), sizes);
    for (std::size_t u = 0; u < units_.size() && !buffers.empty(); ++u)
      units_[u]->set_shared_buffer(source, buffers[u]);
    return buffers;
  };
  auto const buffers = give(team_.comm, of_team, ShardUnit::Source::team);
  if (!buffers.empty()) team_.gradients = buffers.back();
  has_shared_buffers_ = true;
  if (group_) (void)give(group_->comm, of_group, ShardUnit::Source::group);
}

void ShardEngine::hold_whole() {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (calls_[u].idle()) release(u);
    make_whole(u);
  }
  ++num_holds_;
}

void ShardEngine::let_go() noexcept {
  if (--num_holds_ > 0) return;
  try {
    release_idle();
  } catch (...) {  // Whole parameters are given back without a message.
  }
}

void ShardEngine::reset() {
  for (auto const& unit : units_) unit->reset();
  if (team_.gradients) team_.gradients->give_up();
  team_.gradients.reset();
  has_shared_buffers_ = false;
  for (auto& calls : calls_) {
    calls.open.clear();
    calls.backwards.clear();
  }
  tasks_.clear();
  order_.forget_forward();
  order_.backward_is_over();
  scattering_.reset();
  disagreed_ = false;
}

void ShardEngine::unwrap() {
  for (auto const& unit : units_) {
    std::vector<torch::Tensor> whole;
    for (auto const& parameter : unit->parameters())
      whole.push_back(gather_whole(team_, parameter, parameter.shard, Receivers::all).to(parameter.shard.device()));
    unit->restore(whole);
  }
  for (auto& [buffer, type] : buffer_types_) buffer.set_data(buffer.to(type));
  buffer_types_.clear();
  detach();
  unmark_managed(*model_);
}

torch::ScalarType ShardEngine::own_type(torch::Tensor const& whole) const {
  for (auto const& [buffer, type] : buffer_types_)
    if (buffer.is_same(whole)) return type;
  return whole.scalar_type();
}

ShardedParameters::Stats ShardEngine::stats() const {
  auto result = stats_;
  for (auto const& unit : units_) {
    if (unit->state() != ShardUnit::State::released) result.gathered_bytes += unit->bytes();
    result.group_bytes += unit->group_bytes();
    for (auto const& parameter : unit->parameters()) result.shard_bytes += Index(parameter.shard.nbytes());
  }
  result.messages = team_.counts.messages + (group_ ? group_->counts.messages : 0);
  result.bytes = team_.counts.bytes + (group_ ? group_->counts.bytes : 0);
  return result;
}

void ShardEngine::reset_stats() {
  stats_ = {};
  team_.counts = {};
  if (group_) group_->counts = {};
}

}  // namespace graticule::training::detail
