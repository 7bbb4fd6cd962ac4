// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/gradient_sync.hpp>
#include <graticule/partition/hash.hpp>

#include "reduce.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace graticule::nn {

namespace {

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

template <class Dictionary>
Named listed(Dictionary const& dictionary) {
  Named result;
  for (auto const& item : dictionary) result.emplace_back(item.key(), item.value());
  return result;
}

void require_replicas(Comm const& team, Named const& tensors) {
  for (auto const& [name, tensor] : tensors) {
    Hash hash;
    hash.add(std::string_view(name)).add(int(tensor.scalar_type()));
    std::string text = name + " " + c10::toString(tensor.scalar_type()) + " [";
    for (auto const size : tensor.sizes()) {
      hash.add(size);
      text += " " + std::to_string(size);
    }
    require_same(team, "ReplicaMismatch", hash.value(), text + " ]");
  }
}

void broadcast_tensor(Comm const& team, torch::Tensor const& tensor) {
  if (team.num_ranks() == 1 || tensor.numel() == 0) return;
  torch::NoGradGuard const no_grad;
  auto staged = tensor.detach().to(torch::kCPU).contiguous();
  team.broadcast(staged.mutable_data_ptr(), Index(staged.nbytes()), 0);
  if (!staged.is_alias_of(tensor)) tensor.detach().copy_(staged);
}

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
  detail::sum_over(rule.team, flat);
  auto const counts = flat.narrow(0, flat.numel() - num, num);
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < num; ++i) {
    auto parameter = bucket.parameters[std::size_t(i)];
    auto part = flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    offset += parameter.numel();
    if (at::real(counts[i]).to(torch::kDouble).item<double>() == 0) continue;
    if (rule.reduction == Reduction::mean) part.div_(rule.team.num_ranks());
    if (parameter.grad().defined())
      parameter.mutable_grad().detach().copy_(part);
    else
      parameter.mutable_grad() = part.clone();
  }
}

}  // namespace

GradientSync::GradientSync(torch::nn::Module const& module, std::vector<TeamRule> rules)
    : parameters_(listed(module.named_parameters())),
      buffers_(listed(module.named_buffers())),
      rules_(std::move(rules)) {
  for (auto const& rule : rules_) {
    require_same(rule.team, "ReplicaMismatch", parameters_.size(), std::to_string(parameters_.size()) + " parameters");
    require_replicas(rule.team, parameters_);
    require_same(rule.team, "ReplicaMismatch", buffers_.size(), std::to_string(buffers_.size()) + " buffers");
    require_replicas(rule.team, buffers_);
  }
}

void GradientSync::set_rules(std::string const& parameter, std::vector<TeamRule> rules) {
  auto const known =
      std::any_of(parameters_.begin(), parameters_.end(), [&](auto const& p) { return p.first == parameter; });
  if (!known) throw Error("UnknownParameter", parameter);
  own_rules_.insert_or_assign(parameter, std::move(rules));
}

void GradientSync::broadcast() const {
  for (auto const& rule : rules_) {
    for (auto const& [name, tensor] : parameters_) broadcast_tensor(rule.team, tensor);
    for (auto const& [name, tensor] : buffers_) broadcast_tensor(rule.team, tensor);
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
