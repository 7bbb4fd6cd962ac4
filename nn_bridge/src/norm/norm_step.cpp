// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/norm_step.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>

#include "call/kept.hpp"
#include "call/recorded_calls.hpp"
#include "collective/collective_maps.hpp"
#include "norm_kernels.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace graticule::nn::detail {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The data as rows of cells; a copy unless it is contiguous.
torch::Tensor as_rows(torch::Tensor const& x, NormShape const& s) {
  return x.contiguous().view({s.num_rows(), s.cells});
}

/// A tensor like `x` of fresh rows of cells. LibTorch must not treat it as a view, because it forbids in-place changes
/// of a function's output that is a view.
torch::Tensor from_rows(torch::Tensor const& rows, torch::Tensor const& x) {
  return at::_unsafe_view(rows, x.sizes()).contiguous(x.suggest_memory_format());
}

/// Values of groups, for each row.
torch::Tensor of_groups(torch::Tensor const& values, NormShape const& s) {
  return values.view({1, s.groups, 1}).expand({s.outer, s.groups, s.inner}).reshape({s.num_rows()});
}

torch::Tensor over_group(torch::Tensor const& rows, NormShape const& s) {
  return rows.view({s.outer, s.groups, s.inner}).sum(at::IntArrayRef{0, 2});
}

/// Values of channels, for each row.
torch::Tensor of_channels(torch::Tensor const& values, NormShape const& s, torch::ScalarType type) {
  auto const times = s.num_rows() / s.channels;
  return values.to(type).view({1, s.channels}).expand({times, s.channels}).reshape({s.num_rows()});
}

torch::Tensor over_channel(torch::Tensor const& rows, NormShape const& s) {
  return rows.view({s.num_rows() / s.channels, s.channels}).sum(0);
}

// A rank's message: cells per group, two flags, then the groups' means, then their sums of squared deviations.
constexpr std::size_t count_at = 0;
constexpr std::size_t requires_grad_at = 1;
constexpr std::size_t grad_mode_at = 2;
constexpr std::size_t header = 3;

/// Replaces `own` by the messages of all ranks of `team` merged in order of ranks (Chan, Golub, LeVeque 1979).
void merge_over(Comm const& team, std::vector<double>& own, std::string const& layer) {
  auto const size = own.size();
  auto const groups = (size - header) / 2;
  std::vector<double> all(size * std::size_t(team.num_ranks()));
  team.gather_to_all(own.data(), Index(size * sizeof(double)), all.data());
  std::fill(own.begin(), own.end(), 0.0);
  own[grad_mode_at] = all[grad_mode_at];
  for (std::size_t r = 0; r < std::size_t(team.num_ranks()); ++r) {
    auto const* from = all.data() + r * size;
    if (from[grad_mode_at] != own[grad_mode_at])
      throw Error("StructureDisagreement", layer + ": ranks 0 and " + std::to_string(r) +
                                               " of a team differ: grad mode is on for one, off for the other");
    own[requires_grad_at] = std::max(own[requires_grad_at], from[requires_grad_at]);
    auto const n = own[count_at];
    auto const added = from[count_at];
    if (added == 0) continue;
    own[count_at] = n + added;
    for (std::size_t i = 0; i < groups; ++i) {
      auto& mean = own[header + i];
      auto& m2 = own[header + groups + i];
      auto const delta = from[header + i] - mean;
      mean += delta * (added / own[count_at]);
      m2 += from[header + groups + i] + delta * delta * (n * added / own[count_at]);
    }
  }
}

/// Two rows of `count` numbers, on the device of `like`, which is in f64.
torch::Tensor on_device(double const* values, std::int64_t count, torch::Tensor const& like) {
  auto const held = message_memory({2, count}, like);
  std::copy_n(values, 2 * count, held.mutable_data_ptr<double>());
  return from_message(held, like.device());
}

/// What a backward needs besides tensors.
struct NormCall {
  Norm norm;
  double count;
  bool requires_grad;
  std::optional<torch::ScalarType> bias_type;  ///< none without a bias
};
using NormCallPointer = std::shared_ptr<NormCall const>;

/// The sum over the ranks of all teams. Where a graph is built, every rank gets a node in it for each team.
torch::Tensor all_sum(torch::Tensor const& x, NormCallPointer const& call) {
  auto total = x;
  for (auto const& team : call->norm.teams) total = apply_map(all_sum_map(team), total);
  return total;
}

/// What the forward saved.
struct Saved {
  torch::Tensor x;
  torch::Tensor weight;
  torch::Tensor mean;     ///< f64 [groups]
  torch::Tensor inverse;  ///< 1 / sqrt(variance + eps), f64 [groups]
};

struct NormGradients {
  torch::Tensor x;
  torch::Tensor weight;
  torch::Tensor bias;
};

/// Two passes over the data and one all-reduce.
NormGradients plain_gradients(NormCallPointer const& call, Saved const& saved, torch::Tensor const& grad,
                              bool wants_x) {
  auto const& s = call->norm.shape;
  auto const x = as_rows(saved.x, s);
  auto const g = as_rows(grad, s);
  auto const mean = of_groups(saved.mean, s);
  auto const inverse = of_groups(saved.inverse, s);
  auto const [sums, products] = row_dots(g, x, mean);
  NormGradients result;
  result.weight = over_channel(products * inverse, s);
  result.bias = over_channel(sums, s);
  if (!call->requires_grad) return result;
  auto const scale = saved.weight.defined() ? of_channels(saved.weight, s, torch::kDouble) : torch::ones_like(inverse);
  auto totals = torch::stack({over_group(sums * scale, s), over_group(products * inverse * scale, s)});
  for (auto const& team : call->norm.teams) sum_over(team, totals);
  if (!wants_x) return result;
  totals = totals / std::max(call->count, 1.0);
  auto const by_x = of_groups(-totals[1] * saved.inverse.square(), s);
  auto const constant = call->norm.centered ? of_groups(-totals[0] * saved.inverse, s) : torch::zeros_like(by_x);
  result.x = from_rows(row_gradient(g, x, mean, {inverse * scale, by_x, constant}), saved.x);
  return result;
}

/// The gradients as functions of x, weight and g that can be differentiated again: statistics are made anew from x.
NormGradients graph_gradients(NormCallPointer const& call, Saved const& saved, torch::Tensor const& grad) {
  auto const& s = call->norm.shape;
  auto const type = type_of_sums(saved.x.scalar_type());
  std::vector<std::int64_t> const sizes{s.outer, s.groups, s.inner, s.cells};
  auto const mean_of = [&](torch::Tensor const& t) {
    return all_sum(t.sum(at::IntArrayRef{0, 2, 3}, true), call) / std::max(call->count, 1.0);
  };
  auto const g = grad.to(type).reshape(sizes);
  // The known mean is subtracted first: sums of what remains lose no digits.
  auto deviation = deviations(saved.x.reshape(sizes), saved.mean.view({1, s.groups, 1, 1}));
  auto inverse = saved.inverse.to(type).view({1, s.groups, 1, 1});
  if (call->requires_grad) {
    if (call->norm.centered) deviation = deviation - mean_of(deviation);
    inverse = (mean_of(deviation.square()) + call->norm.eps).rsqrt();
  }
  auto const normal = deviation * inverse;
  NormGradients result;
  result.weight = over_channel((g * normal).sum(-1).reshape({s.num_rows()}), s);
  result.bias = over_channel(g.sum(-1).reshape({s.num_rows()}), s);
  if (!call->requires_grad) return result;
  auto u = g;
  if (saved.weight.defined()) u = u * of_channels(saved.weight, s, type).view({s.outer, s.groups, s.inner, 1});
  auto dx = u - normal * mean_of(u * normal);
  if (call->norm.centered) dx = dx - mean_of(u);
  result.x = (dx * inverse).reshape(saved.x.sizes()).to(saved.x.scalar_type());
  return result;
}

struct NormFunction : torch::autograd::Function<NormFunction> {
  static variable_list forward(AutogradContext* ctx, torch::Tensor const& x, std::optional<torch::Tensor> const& weight,
                               std::optional<torch::Tensor> const& bias, torch::Tensor const& /*anchor*/,
                               NormCallPointer const& call, NormStatistics const& statistics) {
    auto const& s = call->norm.shape;
    auto const inverse = (statistics.m2 / std::max(statistics.count, 1.0) + call->norm.eps).rsqrt();
    keep(ctx, call);
    ctx->save_for_backward({x, weight.value_or(torch::Tensor()), statistics.mean, inverse});
    auto scale = of_groups(inverse, s);
    if (weight) scale = scale * of_channels(*weight, s, torch::kDouble);
    auto const shift = bias ? of_channels(*bias, s, torch::kDouble) : torch::zeros_like(scale);
    auto const y = from_rows(row_affine(as_rows(x, s), of_groups(statistics.mean, s), scale, shift), x);
    return {y, make_token(x.options())};
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const tensors = ctx->get_saved_variables();
    Saved const saved{tensors[0], tensors[1], tensors[2], tensors[3]};
    auto const call = kept<NormCallPointer>(ctx);
    auto const gradients = torch::GradMode::is_enabled()
                               ? graph_gradients(call, saved, grads[0])
                               : plain_gradients(call, saved, grads[0], ctx->needs_input_grad(0));
    variable_list result(6);
    result[0] = gradients.x;
    // Each may be there without the other.
    if (saved.weight.defined()) result[1] = gradients.weight.to(saved.weight.scalar_type());
    if (call->bias_type) result[2] = gradients.bias.to(*call->bias_type);
    return result;
  }
};

}  // namespace

NormStatistics norm_statistics(Norm const& norm, torch::Tensor const& x, bool requires_grad) {
  bool const grad_mode = torch::GradMode::is_enabled();
  torch::NoGradGuard const no_grad;
  auto const& s = norm.shape;
  auto const [row_means, row_m2] = row_moments(as_rows(x.detach(), s), norm.centered);
  auto const means = row_means.view({s.outer, s.groups, s.inner});
  auto const m2 = row_m2.view({s.outer, s.groups, s.inner});
  auto const num_rows = s.outer * s.inner;
  auto mean = means.sum(at::IntArrayRef{0, 2}) / double(std::max<std::int64_t>(num_rows, 1));
  auto total = (m2 + double(s.cells) * (means - mean.view({1, s.groups, 1})).square()).sum(at::IntArrayRef{0, 2});
  auto const alone = [](auto const& team) { return team.num_ranks() == 1; };
  if (!x.is_cpu() && std::all_of(norm.teams.begin(), norm.teams.end(), alone))
    return {double(num_rows * s.cells), mean, total, requires_grad};
  if (!x.is_cpu()) {
    // Two numbers for each group, in one copy.
    auto const both = as_message(torch::stack({mean, total}));
    await_messages(x.device());
    mean = both[0];
    total = both[1];
  }
  std::vector<double> message(header + 2 * std::size_t(s.groups));
  message[count_at] = double(num_rows * s.cells);
  message[requires_grad_at] = requires_grad ? 1 : 0;
  message[grad_mode_at] = grad_mode ? 1 : 0;
  std::copy_n(mean.const_data_ptr<double>(), s.groups, message.begin() + header);
  std::copy_n(total.const_data_ptr<double>(), s.groups, message.begin() + header + s.groups);
  for (auto const& team : norm.teams)
    if (team.num_ranks() > 1) merge_over(team, message, norm.layer);
  auto const merged = on_device(message.data() + header, s.groups, row_means);
  return {message[count_at], merged[0], merged[1], message[requires_grad_at] != 0};
}

torch::Tensor normalize(Norm const& norm, NormStatistics const& statistics, torch::Tensor const& x,
                        torch::Tensor const& weight, torch::Tensor const& bias) {
  auto const bias_type = bias.defined() ? std::optional(bias.scalar_type()) : std::nullopt;
  auto const call = std::make_shared<NormCall>(NormCall{norm, statistics.count, statistics.requires_grad, bias_type});
  auto const any =
      torch::GradMode::is_enabled() && (statistics.requires_grad || needs_gradient(weight) || needs_gradient(bias));
  auto const given = [](torch::Tensor const& p) { return p.defined() ? std::optional(p) : std::nullopt; };
  return NormFunction::apply(x, given(weight), given(bias), anchor(any, x.options()), call, statistics)[0];
}

void update_running(torch::Tensor const& running, torch::Tensor const& found, double factor) {
  torch::NoGradGuard const no_grad;
  running.detach().copy_(running.detach().to(torch::kDouble) * (1 - factor) + found * factor);
}

void update_running_average(torch::Tensor const& running, torch::Tensor const& found, torch::Tensor const& count) {
  torch::NoGradGuard const no_grad;
  auto const factor = 1.0 / count.detach().to(torch::kDouble);
  running.detach().copy_(running.detach().to(torch::kDouble) * (1 - factor) + found * factor);
}

}  // namespace graticule::nn::detail
