// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/agreement.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace graticule::nn {

namespace {

/// Gradients that travel together, with flags that say which are defined.
struct Bucket {
  TeamRule const* rule;
  std::vector<torch::Tensor> parameters;
  detail::AddedOn added_on = detail::AddedOn::host;

  [[nodiscard]] torch::Tensor const& first() const { return parameters.front(); }
};

/// Agrees on where buckets are added: each team once for all of its buckets, in order of their first ones.
/// @param failure of this rank, which all ranks of its teams throw
void agree(std::vector<Bucket>& buckets, std::exception_ptr failure) {
  std::vector<bool> done(buckets.size());
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    auto const& team = buckets[b].rule->team;
    if (done[b] || team.num_ranks() == 1) continue;
    std::vector<std::size_t> own;
    std::vector<Index> on_host;
    for (std::size_t i = b; i < buckets.size(); ++i)
      if (buckets[i].rule->team.handle() == team.handle()) {
        own.push_back(i);
        on_host.push_back(buckets[i].first().is_cpu() ? 1 : 0);
      }
    on_host.push_back(failure ? 1 : 0);
    team.max(on_host);
    if (on_host.back() != 0) detail::attempt(failure, [&] { graticule::agree(team, failure); });
    for (std::size_t k = 0; k < own.size(); ++k) {
      done[own[k]] = true;
      buckets[own[k]].added_on = on_host[k] != 0 ? detail::AddedOn::host : detail::AddedOn::device;
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// 1 for each gradient that is there, otherwise 0, on the device of the gradients.
torch::Tensor flags_of(Bucket const& bucket) {
  auto const flags = detail::message_memory({std::int64_t(bucket.parameters.size())}, bucket.first());
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i)
    flags[std::int64_t(i)].fill_(bucket.parameters[i].grad().defined() ? 1 : 0);
  return detail::from_message(flags, bucket.first().device());
}

void reduce_bucket(Bucket const& bucket) {
  auto const& rule = *bucket.rule;
  auto const num = std::int64_t(bucket.parameters.size());
  std::vector<torch::Tensor> parts;
  for (auto const& parameter : bucket.parameters)
    parts.push_back(parameter.grad().defined()
                        ? parameter.grad().detach().reshape({-1})
                        : torch::zeros({parameter.numel()}, parameter.options().requires_grad(false)));
  parts.push_back(flags_of(bucket));
  auto flat = torch::cat(parts);
  detail::sum_in_place(rule.team, flat, bucket.added_on);
  auto const held = detail::as_message(at::real(flat.narrow(0, flat.numel() - num, num)));
  detail::await_messages(flat.device());
  auto const counts = held.to(torch::kDouble);
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < num; ++i) {
    auto parameter = bucket.parameters[std::size_t(i)];
    auto part = flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    offset += parameter.numel();
    if (counts[i].item<double>() == 0) continue;
    if (rule.reduction == Reduction::mean) part.div_(rule.team.num_ranks());
    if (parameter.grad().defined())
      parameter.mutable_grad().detach().copy_(part);
    else
      parameter.mutable_grad() = part.clone();
  }
}

}  // namespace

GradientSync::GradientSync(torch::nn::Module const& module, std::vector<TeamRule> rules)
    : parameters_(parameters_of(module)), buffers_(detail::buffers_of(module)), rules_(std::move(rules)) {
  std::vector<Comm> teams;
  for (auto const& rule : rules_) teams.push_back(rule.team);
  std::exception_ptr failure;
  detail::attempt(failure, [&] {
    detail::require_values(parameters_);
    detail::require_values(buffers_);
  });
  detail::throw_agreed(teams, failure);
  for (auto const& team : teams) {
    detail::attempt(failure, [&] { detail::require_replicas(team, parameters_); });
    detail::attempt(failure, [&] { detail::require_replicas(team, buffers_); });
  }
  detail::throw_agreed(teams, failure);
}

void GradientSync::set_rules(std::string const& parameter, std::vector<TeamRule> rules) {
  auto const known =
      std::any_of(parameters_.begin(), parameters_.end(), [&](auto const& p) { return p.first == parameter; });
  if (!known) throw Error("UnknownName", "the module has no parameter '" + parameter + "'");
  own_rules_.insert_or_assign(parameter, std::move(rules));
}

void GradientSync::broadcast() const {
  for (auto const& rule : rules_) {
    detail::broadcast_replicas(rule.team, parameters_);
    detail::broadcast_replicas(rule.team, buffers_);
  }
}

std::vector<std::pair<Comm, NamedTensors>> GradientSync::by_team() const {
  std::vector<std::pair<Comm, NamedTensors>> teams;
  auto const of_team = [&](Comm const& team) -> NamedTensors& {
    for (auto& [known, tensors] : teams)
      if (known.handle() == team.handle()) return tensors;
    return teams.emplace_back(team, NamedTensors{}).second;
  };
  for (auto const& parameter : parameters_) {
    auto const own = own_rules_.find(parameter.first);
    for (auto const& rule : own == own_rules_.end() ? rules_ : own->second)
      if (rule.team.num_ranks() > 1) of_team(rule.team).push_back(parameter);
  }
  return teams;
}

void GradientSync::require_same_needs() const {
  std::vector<Comm> all;
  std::exception_ptr failure;
  for (auto const& [team, parameters] : by_team()) {
    all.push_back(team);
    detail::attempt(failure, [&] { detail::require_replicas(team, parameters, detail::ReplicaNeeds::gradients); });
  }
  // The ranks of one team know it already.
  if (all.size() > 1) failure = detail::agreed_failure(all, failure);
  if (failure) std::rethrow_exception(failure);
}

void GradientSync::require_equal() const {
  std::vector<Comm> all;
  std::exception_ptr failure;
  for (auto const& [team, parameters] : by_team()) {
    all.push_back(team);
    NamedTensors gradients;
    for (auto const& [name, tensor] : parameters)
      if (auto const& gradient = tensor.grad(); gradient.defined() && gradient.layout() == torch::kStrided)
        gradients.emplace_back("the gradient of '" + name + "'", gradient);
      else
        gradients.emplace_back("no gradient of '" + name + "'", torch::empty({0}));
    detail::attempt(failure, [&] { require_same_bits(team, gradients); });
    detail::attempt(failure, [&] { require_same_bits(team, parameters); });
  }
  try {
    detail::throw_agreed(all, failure);
  } catch (Error const& error) {
    if (error.rule() != "ReplicaMismatch") throw;
    throw Error(error.fault(), error.rule(),
                error.text() +
                    ": parameters begin equal (broadcast), and gradients are reduced (GradientSync, "
                    "DataParallel) between the backward and the optimizer's step, on all ranks of a team");
  }
}

void GradientSync::reduce() const {
  torch::NoGradGuard const no_grad;
  require_same_needs();
  // All parameters under the default rules first, by dtype; then each that has its own.
  std::map<torch::ScalarType, std::vector<torch::Tensor>> by_dtype;
  for (auto const& [name, tensor] : parameters_)
    if (tensor.requires_grad() && !own_rules_.contains(name)) by_dtype[tensor.scalar_type()].push_back(tensor);
  std::vector<Bucket> buckets;
  for (auto const& rule : rules_)
    for (auto const& [dtype, tensors] : by_dtype) buckets.push_back({&rule, tensors});
  for (auto const& [name, tensor] : parameters_) {
    auto const own = own_rules_.find(name);
    if (own == own_rules_.end() || !tensor.requires_grad()) continue;
    for (auto const& rule : own->second) buckets.push_back({&rule, {tensor}});
  }
  std::exception_ptr failure;
  detail::attempt(failure, [&] {
    for (auto const& [name, tensor] : parameters_) detail::require_dense(name, tensor.grad());
  });
  agree(buckets, failure);
  for (auto const& bucket : buckets) reduce_bucket(bucket);
}

}  // namespace graticule::nn
