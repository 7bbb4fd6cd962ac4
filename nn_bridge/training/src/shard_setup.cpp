// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/replicas.hpp>
#include <graticule/training/managed.hpp>

#include "shard_engine.hpp"

#include <cmath>
#include <map>

namespace graticule::nn::detail {

namespace {

void check_options(ShardOptions const& options) {
  if (options.num_prefetched < 0)
    throw Error("BadOption", std::to_string(options.num_prefetched) + " units gathered ahead");
  if (!std::isfinite(options.gradient_factor))
    throw Error("BadOption", "a gradient factor of " + std::to_string(options.gradient_factor));
  auto const check = [](std::optional<torch::ScalarType> const& type, char const* what) {
    if (type && !at::isFloatingType(*type))
      throw Error("BadOption", std::string("a precision of ") + c10::toString(*type) + " for " + what);
  };
  check(options.precision.parameters, "parameters");
  check(options.precision.gradients, "gradients");
  check(options.precision.buffers, "buffers");
}

/// The values of the first rank of all teams, on all ranks.
void agree_on_values(torch::nn::Module const& model, TeamRule const& shards, ShardOptions const& options) {
  auto teams = options.replicas;
  teams.push_back(shards);
  auto tensors = parameters_of(model);
  for (auto& buffer : buffers_of(model)) tensors.push_back(std::move(buffer));
  for (auto const& rule : teams) require_replicas(rule.team, tensors);
  for (auto const& rule : teams) broadcast_replicas(rule.team, tensors);
}

}  // namespace

ShardEngine::ShardEngine(std::shared_ptr<torch::nn::Module> model, TeamRule const& shards, ShardOptions options)
    : model_(std::move(model)), shards_(shards), options_(std::move(options)), team_{shards.team} {
  run_agreed(shards_.team, [&] {
    check_options(options_);
    found_ = find_units(model_, options_);
  });
  agree_on_values(*model_, shards_, options_);
  bool const compares = options_.checks == PeerChecks::on ||
                        (options_.checks == PeerChecks::by_environment && environment_checks_calls());
  if (compares) comparison_.emplace(shards_.team);
  if (compares) team_.stall = Stall::fail;
  reduction_.factor = options_.gradient_factor;
  if (shards_.reduction == Reduction::mean) reduction_.factor /= shards_.team.num_ranks();
  reduction_.dtype = options_.precision.gradients;
  reduction_.missing =
      options_.unused == UnusedParameters::are_refused ? MissingGradients::are_refused : MissingGradients::are_zero;
  for (auto const& unit : found_.units)
    units_.push_back(std::make_unique<ShardUnit>(team_, unit.name, unit.parameters, options_.precision.parameters));
  calls_.resize(units_.size());
  if (auto const& type = options_.precision.buffers)
    for (auto const& [name, buffer] : buffers_of(*model_)) {
      auto held = buffer;
      if (at::isFloatingType(held.scalar_type())) held.set_data(held.to(*type));
    }
  mark_managed(model_, ParameterNames::original, options_.ignored);
}

std::vector<ShardedParameter*> ShardEngine::parameters() const {
  std::map<c10::TensorImpl const*, ShardedParameter*> by_leaf;
  for (auto const& unit : units_)
    for (auto& parameter : unit->parameters()) by_leaf.emplace(parameter.full.unsafeGetTensorImpl(), &parameter);
  std::vector<ShardedParameter*> result;
  for (auto const& [name, tensor] : parameters_of(*model_)) {
    auto const found = by_leaf.find(tensor.unsafeGetTensorImpl());
    if (found != by_leaf.end()) result.push_back(found->second);
  }
  return result;
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
  for (auto& calls : calls_) {
    calls.open.clear();
    calls.backwards.clear();
  }
  tasks_.clear();
  last_forward_.reset();
  last_ended_.reset();
  last_backward_.reset();
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
  detach();
  unmark_managed(*model_);
}

ShardStats ShardEngine::stats() const {
  auto result = stats_;
  for (auto const& unit : units_) {
    if (unit->state() != ShardUnit::State::released) result.gathered_bytes += unit->bytes();
    for (auto const& parameter : unit->parameters()) result.shard_bytes += Index(parameter.shard.nbytes());
  }
  result.messages = team_.counts.messages;
  result.bytes = team_.counts.bytes;
  return result;
}

void ShardEngine::reset_stats() {
  stats_ = {};
  team_.counts = {};
}

}  // namespace graticule::nn::detail
