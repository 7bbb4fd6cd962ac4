// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>

#include <algorithm>
#include <limits>
#include <tuple>

namespace graticule::nn {

namespace {

/// Gradients that travel together, and the flags that say where one is defined.
struct Bucket {
  std::vector<torch::Tensor> parameters;
};

void reduce_bucket(TeamRule const& rule, Bucket const& bucket) {
  auto const num = std::int64_t(bucket.parameters.size());
  auto const& first = bucket.parameters.front();
  std::vector<torch::Tensor> parts;
  auto defined = torch::zeros({num}, first.options().requires_grad(false));
  for (std::int64_t i = 0; i < num; ++i) {
    auto const& parameter = bucket.parameters[std::size_t(i)];
    if (parameter.grad().defined()) {
      parts.push_back(parameter.grad().detach().reshape({-1}));
      defined[i].fill_(1);
    } else {
      parts.push_back(torch::zeros({parameter.numel()}, parameter.options().requires_grad(false)));
    }
  }
  parts.push_back(defined);
  auto flat = torch::cat(parts);
  detail::sum_where_it_lies(rule.team, flat);
  auto const counts = at::real(flat.narrow(0, flat.numel() - num, num)).to(torch::kCPU, torch::kDouble);
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
  std::map<torch::ScalarType, Bucket> buckets;
  for (auto const& [name, tensor] : parameters_)
    if (tensor.requires_grad() && !own_rules_.contains(name))
      buckets[tensor.scalar_type()].parameters.push_back(tensor);
  for (auto const& rule : rules_)
    for (auto const& [dtype, bucket] : buckets) reduce_bucket(rule, bucket);
  for (auto const& [name, tensor] : parameters_) {
    auto const own = own_rules_.find(name);
    if (own == own_rules_.end() || !tensor.requires_grad()) continue;
    for (auto const& rule : own->second) reduce_bucket(rule, Bucket{{tensor}});
  }
}

}  // namespace graticule::nn
