// SPDX-License-Identifier: BSD-3-Clause
#include "gradient_buckets.hpp"

#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/patience.hpp>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace graticule::training::detail {

namespace {

/// The largest over all ranks that teams join, when each rank has given its own.
Index largest(std::vector<Comm> const& teams, Index value) {
  // A grid of teams needs one round; teams that are no grid may need as many as there are.
  for (std::size_t round = 0; round < teams.size(); ++round)
    for (auto const& team : teams) team.max(std::span(&value, 1));
  return value;
}

std::string low_rank_name(std::string const& parameter, std::size_t rule, char const* what) {
  return parameter + "/" + std::to_string(rule) + "/" + what;
}

}  // namespace

GradientBuckets::GradientBuckets(std::vector<ReducedParameter> parameters, std::vector<Comm> const& teams,
                                 DataParallelOptions const& options)
    : parameters_(std::move(parameters)),
      teams_(teams),
      options_(options),
      sums_on_device_(all_on_devices()),
      bucket_of_(parameters_.size()) {
  for (auto& parameter : parameters_) {
    parameter.sizes = parameter.tensor.sizes().vec();
    if (parameter.tensor.is_complex()) parameter.sizes.push_back(2);
  }
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t(0));
  make(order);
}

bool GradientBuckets::all_on_devices() const {
  auto const is_on_device = [](ReducedParameter const& parameter) {
    auto const& tensor = parameter.tensor;
    return tensor.is_cuda() || tensor.is_hip() || tensor.is_privateuseone();
  };
  bool const all = !options_.hook && std::all_of(parameters_.begin(), parameters_.end(), is_on_device);
  return largest(teams_, all ? 0 : 1) == 0;
}

void GradientBuckets::keep_unended() {
  std::vector<Bucket> unended;
  for (auto& bucket : buckets_)
    if (bucket.num_started > bucket.num_ended && (options_.hook || bucket.sums[bucket.num_ended].sum().in_messages()))
      unended.push_back(std::move(bucket));
  if (!unended.empty()) graticule::detail::keep_for_good(std::move(unended));
}

std::string GradientBuckets::described(Bucket const& bucket) const {
  if (bucket.members.empty()) return bucket.name;
  Hash hash;
  for (auto const i : bucket.members) hash.add(std::string_view(parameters_[i].name)).add(parameters_[i].sizes);
  auto const& first = parameters_[bucket.members.front()];
  Index num_data = 0;
  for (auto const i : bucket.members) num_data += c10::multiply_integers(parameters_[i].sizes);
  std::string text = std::to_string(num_data) + " numbers from " + c10::toString(first.tensor.scalar_type()) + " " +
                     bucket.name + " with checksum " + std::to_string(hash.value());
  for (auto const& rule : first.rules) text += rule.reduction == nn::Reduction::mean ? ", mean" : ", sum";
  return text;
}

void GradientBuckets::add(std::vector<std::size_t> members, torch::TensorOptions const& options,
                          std::vector<TeamPlace> rules) {
  auto const b = buckets_.size();
  auto& bucket = buckets_.emplace_back();
  for (auto const i : members) {
    bucket_of_[i] = b;
    bucket.begins.push_back(bucket.num_data);
    bucket.num_data += c10::multiply_integers(parameters_[i].sizes);
  }
  // Its memory is taken when it is known whether ranks share it.
  bucket.flat = torch::empty({0}, options);
  bucket.order = std::make_unique<nn::detail::MessageStream>(bucket.flat.device());
  bucket.members = std::move(members);
  bucket.rules = std::move(rules);
  for (std::size_t k = 0; k < bucket.rules.size(); ++k) {
    auto const team = bucket.rules[k].team;
    bucket.sums.emplace_back(
        TeamSum(teams_[team], bucket.flat.scalar_type(), options_.wire, options_.order, bucket.flat.device()),
        matrices_of(bucket, k));
    of_team_[team].push_back(b);
  }
  bucket.name = bucket.members.empty() ? "nothing but the end of the backward"
                                       : "gradients of '" + parameters_[bucket.members.front()].name + "'" +
                                             (bucket.members.size() > 1 ? " and others" : "");
  bucket.described = described(bucket);
}

void GradientBuckets::make(std::vector<std::size_t> const& order) {
  struct Kind {
    torch::ScalarType type;
    torch::Device device;
    std::vector<TeamPlace> rules;
    bool operator==(Kind const&) const = default;
  };
  std::vector<Kind> kinds;
  std::vector<BucketItem> items;
  for (auto const& parameter : parameters_) {
    Kind const kind{parameter.tensor.scalar_type(),
                    sums_on_device_ ? parameter.tensor.device() : torch::Device(torch::kCPU), parameter.rules};
    auto const found = std::find(kinds.begin(), kinds.end(), kind);
    items.push_back({Index(parameter.tensor.nbytes()), std::uint64_t(found - kinds.begin())});
    if (found == kinds.end()) kinds.push_back(kind);
  }
  order_ = order;
  buckets_.clear();
  of_team_.assign(teams_.size(), {});
  for (auto& members : assign_buckets(items, order, options_.buckets)) {
    auto const& [type, device, rules] = kinds[items[members.front()].kind];
    add(std::move(members), torch::TensorOptions(c10::toRealValueType(type)).device(device), rules);
  }
  if (options_.wait == GradientWait::late) {
    std::vector<TeamPlace> all;
    for (std::size_t t = 0; t < teams_.size(); ++t) all.push_back({t, nn::Reduction::sum});
    add({}, torch::kDouble, all);
  }
  share_on_node();
}

void GradientBuckets::share_on_node() {
  for (std::size_t t = 0; t < teams_.size(); ++t) {
    std::vector<std::pair<TeamSum*, Index>> sums;
    for (auto const b : of_team_[t]) {
      auto& bucket = buckets_[b];
      for (std::size_t k = 0; k < bucket.rules.size(); ++k) {
        if (bucket.rules[k].team != t) continue;
        sums.emplace_back(&bucket.sums[k].sum(), bucket.numel());
      }
    }
    TeamSum::share_on_node(teams_[t], sums);
  }
  // What travels as thin factors needs the bucket beside them, and what a hook reduces is its own.
  bool const is_shared = !options_.low_rank && !options_.hook;
  for (auto& bucket : buckets_) {
    torch::Tensor shared;
    for (auto& sum : bucket.sums)
      if (auto const memory = sum.sum().shared_memory(); is_shared && memory.defined()) shared = memory;
    bucket.flat = shared.defined() ? shared : torch::empty({bucket.numel()}, bucket.flat.options());
  }
}

std::vector<LowRankMatrix> GradientBuckets::matrices_of(Bucket const& bucket, std::size_t rule) {
  auto const type = bucket.flat.scalar_type();
  std::vector<LowRankMatrix> matrices;
  if (!options_.low_rank || (type != torch::kFloat && type != torch::kDouble)) return matrices;
  auto const& low = *options_.low_rank;
  auto const num_members = Index(bucket.members.size());
  for (Index m = 0; m < num_members; ++m) {
    auto const i = bucket.members[std::size_t(m)];
    auto const& sizes = parameters_[i].sizes;
    auto const size = c10::multiply_integers(sizes);
    if (sizes.size() < 2 || size == 0 || teams_[parameters_[i].rules[rule].team].num_ranks() == 1) continue;
    auto const rows = sizes.front();
    auto const columns = size / rows;
    if (double(rows + columns) * double(low.rank) * low.least_saving >= double(size)) continue;
    auto& part = low_rank_[{i, rule}];
    if (!part.factor.defined()) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(low.seed + i);
      auto const rank = std::min({low.rank, rows, columns});
      auto const device = bucket.flat.device();
      part.factor = orthonormal(torch::randn({columns, rank}, generator, type)).to(device);
      part.error = torch::zeros({rows, columns}, torch::TensorOptions(type).device(device));
    }
    matrices.push_back({bucket.begins[std::size_t(m)], rows, columns, bucket.num_data + num_members + m, &part});
  }
  return matrices;
}

nn::NamedTensors GradientBuckets::low_rank_state(Index num_begun) const {
  nn::NamedTensors state{{"iterations", torch::tensor(num_loaded_ + num_begun)}};
  for (auto const& [key, part] : low_rank_) {
    auto const& name = parameters_[key.first].name;
    state.emplace_back(low_rank_name(name, key.second, "factor"), part.factor.clone());
    state.emplace_back(low_rank_name(name, key.second, "error"), part.error.clone());
  }
  return state;
}

void GradientBuckets::load_low_rank_state(nn::NamedTensors const& state, Index num_begun) {
  auto const own = low_rank_state(num_begun);
  bool same = own.size() == state.size();
  for (std::size_t i = 0; same && i < own.size(); ++i)
    same = own[i].first == state[i].first && own[i].second.sizes() == state[i].second.sizes() &&
           own[i].second.scalar_type() == state[i].second.scalar_type();
  if (!same)
    throw Error("StateMismatch", "the saved gradient state belongs to another model, other rules or other ranks");
  num_loaded_ = state.front().second.item<Index>() - num_begun;
  std::size_t at = 1;
  for (auto& [key, part] : low_rank_) {
    part.factor.copy_(state[at++].second);
    part.error.copy_(state[at++].second);
  }
}

bool GradientBuckets::are_low_rank(Index number) const {
  return options_.low_rank && num_loaded_ + number > options_.low_rank->first_iterations;
}

void GradientBuckets::renew_in_order(std::vector<std::size_t> const& arrivals) {
  std::vector<Index> order(arrivals.begin(), arrivals.end());
  for (auto const& bucket : buckets_)
    for (auto const i : bucket.members)
      if (!parameters_[i].ready) order.push_back(Index(i));
  for (auto const& team : teams_) team.broadcast(order.data(), Index(order.size() * sizeof(Index)), 0);
  Hash hash;
  hash.add(order);
  auto const word = Index(hash.value() >> 1U);
  // Teams that are no grid may have got different orders: the first one stays.
  if (largest(teams_, word) != -largest(teams_, -word)) return;
  make({order.begin(), order.end()});
}

void GradientBuckets::begin_iteration() {
  for (auto& bucket : buckets_) {
    bucket.num_ready = bucket.num_started = bucket.num_ended = 0;
    bucket.filled = bucket.delivered = bucket.compared = false;
  }
  for (auto& parameter : parameters_) parameter.ready = false;
}

void GradientBuckets::put_aside(std::size_t i) {
  auto& parameter = parameters_[i];
  if (parameter.reduced) {
    parameter.before = std::exchange(parameter.tensor.mutable_grad(), torch::Tensor());
    parameter.reduced = false;
  } else if (!parameter.tensor.grad().defined()) {
    parameter.before.reset();
  }
}

torch::Tensor GradientBuckets::slot(Bucket const& bucket, std::size_t member) const {
  auto const& parameter = parameters_[bucket.members[member]];
  auto const size = c10::multiply_integers(parameter.sizes);
  auto const part = bucket.flat.narrow(0, bucket.begins[member], size).view(parameter.sizes);
  return Index(parameter.sizes.size()) > parameter.tensor.dim() ? torch::view_as_complex(part) : part;
}

bool GradientBuckets::is_there(ReducedParameter const& parameter) {
  auto const& grad = parameter.tensor.grad();
  if (!grad.defined() || parameter.reduced) return false;
  nn::detail::require_dense(parameter.name, grad);
  auto sizes = grad.sizes().vec();
  if (grad.is_complex()) sizes.push_back(2);
  if (sizes != parameter.sizes)
    throw Error("ParametersChanged",
                "'" + parameter.name + "' has changed its shape: construct the object that reduces its gradient again");
  return true;
}

void GradientBuckets::fill(Bucket& bucket, Giver giver) {
  auto const num = bucket.members.size();
  std::vector<double> flags(2 * num + 1, 0.0);
  for (std::size_t m = 0; m < num; ++m) {
    auto const& parameter = parameters_[bucket.members[m]];
    bool const there = giver.is_present && !giver.failed && is_there(parameter);
    bool const given = parameter.nested && parameter.reduced && parameter.tensor.grad().defined();
    if (giver.is_present && (there || !given)) flags[there ? num + m : m] = 1;
    auto const numel = c10::multiply_integers(parameter.sizes);
    auto const place = bucket.flat.narrow(0, bucket.begins[m], numel).view(parameter.sizes);
    if (!there) {
      place.zero_();
      continue;
    }
    auto const grad = parameter.tensor.grad().detach();
    place.copy_(grad.is_complex() ? torch::view_as_real(grad.resolve_conj()) : grad);
  }
  flags.back() = giver.failed ? 1 : 0;
  auto const given = nn::detail::message_memory({Index(flags.size())}, bucket.flat);
  given.copy_(torch::from_blob(flags.data(), {Index(flags.size())}, torch::kDouble));
  bucket.flat.narrow(0, bucket.num_data, Index(flags.size())).copy_(given, /*non_blocking=*/true);
  bucket.order->follow_current();
  bucket.filled = true;
}

GradientBucket GradientBuckets::given_to_hook(std::size_t b) const {
  auto const& bucket = buckets_[b];
  auto const& [team, reduction] = bucket.rules[bucket.num_ended];
  GradientBucket given{.index = b,
                       .num_buckets = std::size_t(std::count_if(
                           buckets_.begin(), buckets_.end(), [](Bucket const& one) { return !one.members.empty(); })),
                       .team = teams_[team],
                       .reduction = reduction,
                       .values = bucket.flat.narrow(0, 0, bucket.num_data),
                       .parameters = {},
                       .gradients = {}};
  for (std::size_t m = 0; m < bucket.members.size(); ++m) {
    auto const& parameter = parameters_[bucket.members[m]];
    given.parameters.push_back(parameter.name);
    given.gradients.push_back(slot(bucket, m));
  }
  return given;
}

void GradientBuckets::deliver(Bucket const& bucket, std::size_t member) {
  auto& parameter = parameters_[bucket.members[member]];
  auto const value = slot(bucket, member);
  auto& target = parameter.handed_over ? parameter.held : parameter.tensor.mutable_grad();
  auto before = std::exchange(parameter.before, torch::Tensor());
  if (!before.defined() && target.defined() && parameter.reduced) before = target.detach().clone();
  if (!target.defined() || target.sizes() != value.sizes())
    target = value.to(parameter.tensor.options().requires_grad(false), false, true);
  else
    target.detach().copy_(value);
  if (before.defined()) {
    target.detach().add_(before);
    nn::detail::keep_for_current_stream(before);
  }
  parameter.reduced = true;
}

void GradientBuckets::forget_reduced() {
  for (auto& parameter : parameters_) parameter.reduced = false;
}

void GradientBuckets::hand_over(std::vector<std::size_t> const& parameters) {
  for (auto const i : parameters) {
    auto& parameter = parameters_[i];
    parameter.held = std::exchange(parameter.tensor.mutable_grad(), torch::Tensor());
    parameter.handed_over = true;
  }
}

void GradientBuckets::drop_handed_over() {
  for (auto& parameter : parameters_)
    if (parameter.handed_over) parameter.held.reset();
}

void GradientBuckets::require_reduced() const {
  for (auto const& parameter : parameters_)
    if (parameter.tensor.grad().defined() && !parameter.reduced)
      throw Error("WrongState", "the gradient of '" + parameter.name +
                                    "' is this rank's own: reduce() it, or end with a backward that does");
}

void GradientBuckets::end_iteration(bool complete, bool nested) {
  for (auto& parameter : parameters_) parameter.nested = nested && (parameter.nested || parameter.ready);
  for (auto& [key, part] : low_rank_) part.end_iteration(complete);
}

void GradientBuckets::abandon() {
  for (auto& parameter : parameters_) parameter.before.reset();
  drop_handed_over();
  for (auto& [key, part] : low_rank_) part.end_iteration(false);
}

void GradientBuckets::keep_all() { graticule::detail::keep_for_good(std::move(buckets_)); }

}  // namespace graticule::training::detail
