// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>

#include <algorithm>
#include <limits>
#include <tuple>

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
void agree(std::vector<Bucket>& buckets) {
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
    team.max(on_host);
    for (std::size_t k = 0; k < own.size(); ++k) {
      done[own[k]] = true;
      buckets[own[k]].added_on = on_host[k] != 0 ? detail::AddedOn::host : detail::AddedOn::device;
    }
  }
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
  for (auto const& rule : rules_) {
    detail::require_replicas(rule.team, parameters_);
    detail::require_replicas(rule.team, buffers_);
  }
}

void GradientSync::set_rules(std::string const& parameter, std::vector<TeamRule> rules) {
  auto const known =
      std::any_of(parameters_.begin(), parameters_.end(), [&](auto const& p) { return p.first == parameter; });
  if (!known) throw Error("UnknownName", "no parameter: " + parameter);
  own_rules_.insert_or_assign(parameter, std::move(rules));
}

void GradientSync::broadcast() const {
  for (auto const& rule : rules_) {
    detail::broadcast_replicas(rule.team, parameters_);
    detail::broadcast_replicas(rule.team, buffers_);
  }
}

void GradientSync::reduce() const {
  torch::NoGradGuard const no_grad;
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
  agree(buckets);
  for (auto const& bucket : buckets) reduce_bucket(bucket);
}

}  // namespace graticule::nn
