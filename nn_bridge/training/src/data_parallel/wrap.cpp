// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/training/detail/managed.hpp>
#include <graticule/training/detail/wires.hpp>

#include "reducer.hpp"
#include "sharded/released_storage.hpp"

#include <algorithm>
#include <utility>

namespace graticule::training::detail {

using nn::detail::attempt;
using nn::detail::throw_agreed;

namespace {

/// Place of a team in `teams`, where it is put if it is new.
std::size_t place_of(std::vector<Comm>& teams, Comm const& team) {
  auto const found =
      std::find_if(teams.begin(), teams.end(), [&](auto const& known) { return known.handle() == team.handle(); });
  if (found != teams.end()) return std::size_t(found - teams.begin());
  teams.push_back(team);
  return teams.size() - 1;
}

std::vector<TeamPlace> places_of(std::vector<Comm>& teams, std::vector<nn::TeamRule> const& rules) {
  std::vector<TeamPlace> places;
  for (auto const& [team, reduction] : rules) places.push_back({place_of(teams, team), reduction});
  return places;
}

void require_no_team_twice(std::vector<TeamPlace> const& rules, std::string const& of) {
  for (std::size_t a = 0; a < rules.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (rules[a].team == rules[b].team) throw Error("BadOption", "the rules of " + of + " contain a team twice");
}

bool can_sum(torch::ScalarType type) {
  auto const real = c10::toRealValueType(type);
  return type == torch::kHalf || type == torch::kBFloat16 || real == torch::kFloat || real == torch::kDouble;
}

bool holds(nn::NamedTensors const& tensors, std::string const& name) {
  return std::any_of(tensors.begin(), tensors.end(), [&](auto const& held) { return held.first == name; });
}

/// What this rank can see alone.
void require_arguments(torch::nn::Module const& module, nn::NamedTensors const& parameters,
                       nn::NamedTensors const& buffers, DataParallelOptions const& options) {
  refuse_cut(module);
  for (auto const& [name, rules] : options.own_rules)
    if (!holds(parameters, name))
      throw Error("UnknownName", "there are rules for '" + name + "', which is no parameter");
  for (auto const& [name, policy] : options.own_buffers)
    if (!holds(buffers, name)) throw Error("UnknownName", "there is a policy for '" + name + "', which is no buffer");
  (void)assign_buckets({}, {}, options.buckets);
  if (auto const& low = options.low_rank;
      low && (low->rank < 1 || !(low->least_saving > 0) || low->first_iterations < 0))
    throw Error("BadOption",
                "low_rank needs a rank of at least 1, a least_saving above 0 and first_iterations of at least 0, got " +
                    std::to_string(low->rank) + ", " + std::to_string(low->least_saving) + " and " +
                    std::to_string(low->first_iterations));
  if (!enum_row(options.wire).of_gradients)
    throw Error("BadOption", "gradients are sent in their own type, bf16 or f16, and not in " +
                                 graticule::detail::enum_name(options.wire));
  if (options.hook && (options.wire != Wire::own || options.low_rank))
    throw Error("BadOption",
                std::string("a gradient hook and ") + (options.low_rank ? "low_rank" : "wire") + " exclude each other");
  nn::detail::require_values(parameters);
  nn::detail::require_values(buffers);
  bool any = false;
  for (auto const& [name, tensor] : parameters) {
    if (!tensor.requires_grad()) continue;
    any = true;
    if (!can_sum(tensor.scalar_type()))
      throw Error("UnsupportedTensor", "'" + name + "' is of type " + c10::toString(tensor.scalar_type()));
    if (GradientHooks::are_on(tensor))
      throw Error("WrongState", "'" + name + "' is in another DataParallel: destroy that one first");
  }
  if (!any) throw Error("NoParameters", "no parameter of the module requires a gradient");
}

/// Of all that must be the same on all ranks, beside the module.
std::uint64_t hash_of(std::vector<TeamPlace> const& rules,
                      std::map<std::string, std::vector<TeamPlace>> const& own_rules,
                      DataParallelOptions const& options) {
  Hash hash;
  auto const add = [&](std::vector<TeamPlace> const& list) {
    hash.add(list.size());
    for (auto const& [team, reduction] : list) hash.add(team).add(int(reduction));
  };
  add(rules);
  for (auto const& [name, list] : own_rules) {
    hash.add(std::string_view(name));
    add(list);
  }
  hash.add(int(options.wait)).add(int(options.unused)).add(int(options.wire)).add(int(options.order));
  hash.add(options.buckets.first_bytes).add(options.buckets.bytes);
  hash.add(int(options.buffers));
  for (auto const& [name, policy] : options.own_buffers) hash.add(std::string_view(name)).add(int(policy));
  hash.add(int(compares_calls(options.checks)));
  auto const low = options.low_rank.value_or(LowRankGradients{.rank = 0});
  hash.add(int(options.hook != nullptr));
  hash.add(low.rank).add(low.least_saving).add(low.first_iterations).add(low.seed);
  return hash.value();
}

/// Tensors under the same rules.
using Groups = std::vector<std::pair<std::vector<TeamPlace>, nn::NamedTensors>>;

Groups grouped(nn::NamedTensors const& parameters, nn::NamedTensors const& buffers, std::vector<TeamPlace> const& rules,
               std::map<std::string, std::vector<TeamPlace>> const& own_rules) {
  Groups groups{{rules, {}}};
  for (auto const& parameter : parameters) {
    auto const own = own_rules.find(parameter.first);
    auto const& list = own == own_rules.end() ? rules : own->second;
    auto const found = std::find_if(groups.begin(), groups.end(), [&](auto const& g) { return g.first == list; });
    (found == groups.end() ? groups.emplace_back(list, nn::NamedTensors{}) : *found).second.push_back(parameter);
  }
  groups.front().second.insert(groups.front().second.end(), buffers.begin(), buffers.end());
  return groups;
}

}  // namespace

void refuse_cut(torch::nn::Module const& module) {
  auto const below = module.modules(/*include_self=*/false);
  if (is_managed(module) || std::any_of(below.begin(), below.end(), [](auto const& one) { return is_managed(*one); }))
    throw Error("WrongState", "parameters of the model are sharded: ShardedParameters reduces their gradients");
  for (auto const& [name, tensor] : nn::parameters_of(module))
    if (is_released(tensor))
      throw Error("ParametersChanged",
                  "'" + name + "' has no values: its ShardedParameters was destroyed without unwrap()");
}

Wrapped wrap(torch::nn::Module const& module, std::vector<nn::TeamRule> const& rules,
             DataParallelOptions const& options) {
  auto const parameters = nn::parameters_of(module);
  auto const buffers = nn::detail::buffers_of(module);
  std::vector<Comm> given;
  auto const default_rules = places_of(given, rules);
  Wrapped wrapped;
  wrapped.default_rules = default_rules;
  auto const default_teams = given;
  std::map<std::string, std::vector<TeamPlace>> own_rules;
  for (auto const& [name, list] : options.own_rules) own_rules[name] = places_of(given, list);

  std::exception_ptr failure;
  attempt(failure, [&] {
    require_no_team_twice(default_rules, "all parameters");
    for (auto const& [name, list] : own_rules) require_no_team_twice(list, "'" + name + "'");
    require_arguments(module, parameters, buffers, options);
  });
  throw_agreed(default_teams, failure);
  auto const hash = hash_of(default_rules, own_rules, options);
  for (auto const& team : default_teams)
    attempt(failure, [&] { require_same(team, "ArgumentDisagreement", hash, "other rules or options"); });
  throw_agreed(default_teams, failure);

  for (auto const& team : given) wrapped.teams.emplace_back(team.handle());
  auto const groups = grouped(parameters, buffers, default_rules, own_rules);
  for (auto const& [list, tensors] : groups)
    for (auto const& [team, reduction] : list)
      attempt(failure,
              [&] { nn::detail::require_replicas(wrapped.teams[team], tensors, nn::detail::ReplicaNeeds::gradients); });
  throw_agreed(wrapped.teams, failure);
  for (auto const& [list, tensors] : groups)
    for (auto const& [team, reduction] : list) nn::detail::broadcast_replicas(wrapped.teams[team], tensors);
  for (auto const& [name, tensor] : parameters) {
    if (!tensor.requires_grad()) continue;
    auto const own = own_rules.find(name);
    auto& parameter = wrapped.parameters.emplace_back();
    parameter.name = name;
    parameter.tensor = tensor;
    parameter.rules = own == own_rules.end() ? default_rules : own->second;
  }
  return wrapped;
}

}  // namespace graticule::training::detail
