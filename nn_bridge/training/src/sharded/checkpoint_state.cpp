// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/training/detail/shard_rule.hpp>
#include <graticule/training/sharded/checkpoint_state.hpp>

#include "cut_fields.hpp"
#include "engine.hpp"
#include "state/stored_tensors.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace graticule::training {

using detail::CutFields;
using detail::ShardedParameter;
using detail::ShardEngine;
using detail::ShardEntry;

namespace {

/// One tensor of the model's state: cut, or whole on every rank.
struct Item {
  std::string name;
  ShardedParameter* cut = nullptr;
  torch::Tensor whole;
  torch::ScalarType dtype = torch::kFloat;  ///< the model's

  [[nodiscard]] torch::IntArrayRef sizes() const { return cut != nullptr ? cut->full.sizes() : whole.sizes(); }
};

std::vector<Item> items_of(ShardEngine const& engine) {
  std::map<std::string, ShardedParameter*> cut;
  for (auto* parameter : engine.parameters()) cut.emplace(parameter->name, parameter);
  std::vector<Item> items;
  for (auto const& [name, tensor] : nn::parameters_of(engine.model())) {
    auto const found = cut.find(name);
    if (found == cut.end())
      items.push_back({name, nullptr, tensor, tensor.scalar_type()});
    else
      items.push_back({name, found->second, {}, found->second->shard.scalar_type()});
  }
  for (auto const& [name, tensor] : nn::detail::buffers_of(engine.model()))
    items.push_back({name, nullptr, tensor, engine.own_type(tensor)});
  return items;
}

detail::Differences differences_of(std::vector<Item> const& items, std::map<std::string, torch::Tensor> const& state) {
  detail::Differences differences;
  std::set<std::string> known;
  for (auto const& item : items) {
    known.insert(item.name);
    auto const found = state.find(item.name);
    if (found == state.end())
      differences.push_back("the state lacks " + item.name);
    else if (found->second.sizes() != item.sizes())
      differences.push_back(item.name + " is " + c10::str(found->second.sizes()) + " in the state and " +
                            c10::str(item.sizes()) + " here");
  }
  for (auto const& [name, tensor] : state)
    if (!known.contains(name)) differences.push_back("the model lacks " + name);
  return differences;
}

/// The same names in the same order, of the same shapes and dtypes.
detail::Differences differences_of(std::vector<ShardEntry> const& entries, nn::NamedTensors const& state) {
  if (entries.size() != state.size())
    return {"the state has " + std::to_string(state.size()) + " tensors, the model " + std::to_string(entries.size())};
  detail::Differences differences;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto const& [name, tensor] = state[i];
    auto const& own = entries[i].local;
    if (name != entries[i].name)
      differences.push_back(name + " stands in the place of " + entries[i].name);
    else if (tensor.sizes() != own.sizes() || tensor.scalar_type() != own.scalar_type())
      differences.push_back(name + " is " + c10::toString(tensor.scalar_type()) + c10::str(tensor.sizes()) +
                            " in the state and " + c10::toString(own.scalar_type()) + c10::str(own.sizes()) + " here");
  }
  return differences;
}

}  // namespace

nn::NamedTensors full_state(ShardedParameters const& sharded, StateOn where) {
  auto& engine = sharded.engine();
  auto const receivers = where == StateOn::all_ranks ? detail::Receivers::all : detail::Receivers::first;
  bool const gets = where == StateOn::all_ranks || engine.team().comm.rank() == 0;
  nn::NamedTensors result;
  for (auto const& item : items_of(engine)) {
    auto const tensor = item.cut != nullptr
                            ? detail::gather_whole(engine.team(), *item.cut, item.cut->shard, receivers)
                            : item.whole.detach().to(torch::kCPU, item.dtype, /*non_blocking=*/false, /*copy=*/true);
    if (gets) result.emplace_back(item.name, tensor);
  }
  return result;
}

void load_full_state(ShardedParameters& sharded, nn::NamedTensors const& state) {
  torch::NoGradGuard const no_grad;
  auto& engine = sharded.engine();
  auto const items = items_of(engine);
  std::map<std::string, torch::Tensor> const by_name(state.begin(), state.end());
  auto const& comm = engine.team().comm;
  run_agreed(comm,
             [&] { detail::refuse_differences(Fault::program, "StateMismatch", differences_of(items, by_name)); });
  for (auto const& item : items) {
    auto const& source = by_name.at(item.name);
    if (item.cut == nullptr) {
      item.whole.detach().copy_(source);
      continue;
    }
    auto const range = item.cut->elements_of(comm, comm.rank());
    auto const rows = source.detach().reshape({-1}).narrow(0, range.lo, range.size());
    item.cut->shard.copy_(rows.view(item.cut->shard.sizes()));
  }
}

std::vector<ShardEntry> detail::sharded_state(ShardedParameters const& sharded) {
  auto const& engine = sharded.engine();
  auto const& comm = sharded.engine().team().comm;
  std::vector<ShardEntry> result;
  for (auto const& item : items_of(engine)) {
    auto const first =
        item.cut != nullptr ? shard_rows(item.cut->num_rows, comm.num_ranks(), comm.rank()).lo : std::int64_t(0);
    result.push_back({item.name, item.cut != nullptr ? item.cut->shard.detach() : item.whole.detach(),
                      item.sizes().vec(), first, item.cut == nullptr});
  }
  return result;
}

LocalState local_state(ShardedParameters const& sharded) {
  auto const& comm = sharded.engine().team().comm;
  LocalState state{comm.num_ranks(), comm.rank(), {}};
  for (auto const& entry : detail::sharded_state(sharded)) state.tensors.emplace_back(entry.name, entry.local.clone());
  return state;
}

void load_local_state(ShardedParameters& sharded, LocalState const& state) {
  torch::NoGradGuard const no_grad;
  auto const& comm = sharded.engine().team().comm;
  auto const entries = detail::sharded_state(sharded);
  run_agreed(comm, [&] {
    if (state.num_ranks != comm.num_ranks() || state.rank != comm.rank())
      throw Error("StateMismatch", "the state of rank " + std::to_string(state.rank) + " of " +
                                       std::to_string(state.num_ranks) + " is given to rank " +
                                       std::to_string(comm.rank()) + " of " + std::to_string(comm.num_ranks()));
    detail::refuse_differences(Fault::program, "StateMismatch", differences_of(entries, state.tensors));
  });
  for (std::size_t i = 0; i < entries.size(); ++i) torch::Tensor(entries[i].local).copy_(state.tensors[i].second);
}

void save_model(CheckpointWriter& writer, ShardedParameters const& sharded, Comm const& comm,
                std::string const& prefix) {
  auto& engine = sharded.engine();
  CutFields const fields(engine, comm);
  for (auto const& item : items_of(engine)) {
    auto const name = prefix + "/" + item.name;
    if (item.cut != nullptr)
      fields.save(writer, name, *item.cut, item.cut->shard);
    else
      detail::save_tensor(writer, name, item.whole.to(item.dtype));
  }
}

void load_model(Comm const& comm, Checkpoint const& checkpoint, ShardedParameters& sharded, std::string const& prefix) {
  auto& engine = sharded.engine();
  auto const items = items_of(engine);
  run_agreed(comm, [&] {
    std::vector<detail::StoredTensor> wanted;
    for (auto const& item : items) wanted.push_back({item.name, item.dtype, item.sizes()});
    detail::require_fields(checkpoint, prefix, wanted);
  });
  CutFields const fields(engine, comm);
  for (auto const& item : items) {
    auto const name = prefix + "/" + item.name;
    if (item.cut != nullptr)
      fields.load(checkpoint, name, *item.cut, item.cut->shard);
    else
      detail::load_tensor(checkpoint, name, item.whole, item.dtype);
  }
}

}  // namespace graticule::training
