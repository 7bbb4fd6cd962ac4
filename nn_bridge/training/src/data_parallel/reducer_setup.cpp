// SPDX-License-Identifier: BSD-3-Clause
// What the ranks settle between iterations: buckets, and who takes part; and what must hold then.
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/training/detail/buckets.hpp>

#include "reducer.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

namespace graticule::training::detail {

bool compares_calls(CheckedCalls checks) {
  return checks == CheckedCalls::on || (checks == CheckedCalls::by_environment && graticule::detail::checks_calls());
}

namespace {

/// The largest over all ranks that teams join, when each rank has given its own.
Index largest(std::vector<Comm> const& teams, Index value) {
  // A grid of teams needs one round; teams that are no grid may need as many as there are.
  for (std::size_t round = 0; round < teams.size(); ++round)
    for (auto const& team : teams) team.max(std::span(&value, 1));
  return value;
}

}  // namespace

Reducer::Reducer(std::vector<ReducedParameter> parameters, std::vector<Comm> teams, DataParallelOptions const& options)
    : parameters_(std::move(parameters)),
      teams_(std::move(teams)),
      options_(options),
      queues_(teams_.size()),
      bucket_of_(parameters_.size()),
      traffic_(teams_.size()) {
  options_.own_rules.clear();
  options_.checks = compares_calls(options.checks) ? CheckedCalls::on : CheckedCalls::off;
  for (std::size_t t = 0; t < teams_.size(); ++t) queues_[t].divisor = teams_[t].num_ranks();
  for (auto& parameter : parameters_) {
    parameter.sizes = parameter.tensor.sizes().vec();
    if (parameter.tensor.is_complex()) parameter.sizes.push_back(2);
  }
  watch_calls();
  sums_on_device_ = all_on_devices();
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t(0));
  make_buckets(order);
  std::vector<torch::Tensor> tensors;
  for (auto const& parameter : parameters_) tensors.push_back(parameter.tensor);
  hooks_.emplace(
      std::move(tensors), [this](std::size_t i) { before_accumulation(i); },
      [this](std::size_t i) { after_accumulation(i); });
}

bool Reducer::all_on_devices() const {
  auto const is_on_device = [](ReducedParameter const& parameter) {
    auto const& tensor = parameter.tensor;
    return tensor.is_cuda() || tensor.is_hip() || tensor.is_privateuseone();
  };
  bool const all = !options_.hook && std::all_of(parameters_.begin(), parameters_.end(), is_on_device);
  return largest(teams_, all ? 0 : 1) == 0;
}

void Reducer::watch_calls() {
  for (std::size_t t = 0; t < teams_.size(); ++t) {
    queues_[t].generation = teams_[t].generation();
    queues_[t].check.reset();
    if (compares()) queues_[t].check.emplace(teams_[t]);
  }
}

void Reducer::keep_unended() {
  std::vector<Bucket> unended;
  for (auto& bucket : buckets_)
    if (bucket.num_started > bucket.num_ended && (options_.hook || bucket.sums[bucket.num_ended].sum().in_messages()))
      unended.push_back(std::move(bucket));
  if (!unended.empty()) graticule::detail::keep_for_good(std::move(unended));
}

void Reducer::renew() {
  bool const same =
      std::equal(teams_.begin(), teams_.end(), queues_.begin(),
                 [](Comm const& team, TeamQueue const& of) { return team.generation() == of.generation; });
  if (same) return;
  keep_unended();
  broken_ = nullptr;
  watch_calls();
  make_buckets(order_);
}

void Reducer::require_watched() const {
  auto const lost = hooks_->first_lost();
  if (lost < parameters_.size())
    throw Error("ParametersChanged",
                "'" + parameters_[lost].name + "' has changed its device or type: construct the DataParallel again");
}

void Reducer::require_reduced() const {
  if (iteration_.is_open()) return;
  // What was summed before the failure is applied by none.
  if (!iteration_.is_whole())
    throw Error("WrongState", std::string("the last forward or backward of ") +
                                  (iteration_.failed ? "this" : "another") + " rank ended with an exception");
  for (auto const& parameter : parameters_)
    if (parameter.tensor.grad().defined() && !parameter.reduced)
      throw Error("WrongState", "the gradient of '" + parameter.name +
                                    "' is this rank's own: reduce() it, or end with a backward that does");
}

std::string Reducer::described(Bucket const& bucket) const {
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

void Reducer::add_bucket(std::vector<std::size_t> members, torch::TensorOptions const& options,
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
    queues_[team].buckets.push_back(b);
  }
  bucket.name = bucket.members.empty() ? "nothing but the end of the backward"
                                       : "gradients of '" + parameters_[bucket.members.front()].name + "'" +
                                             (bucket.members.size() > 1 ? " and others" : "");
  bucket.described = described(bucket);
}

void Reducer::make_buckets(std::vector<std::size_t> const& order) {
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
  for (auto& queue : queues_) queue.buckets.clear();
  for (auto& members : assign_buckets(items, order, options_.buckets)) {
    auto const& [type, device, rules] = kinds[items[members.front()].kind];
    add_bucket(std::move(members), torch::TensorOptions(c10::toRealValueType(type)).device(device), rules);
  }
  if (options_.wait == GradientWait::late) {
    std::vector<TeamPlace> all;
    for (std::size_t t = 0; t < teams_.size(); ++t) all.push_back({t, nn::Reduction::sum});
    add_bucket({}, torch::kDouble, all);
  }
  share_on_node();
}

void Reducer::share_on_node() {
  for (std::size_t t = 0; t < teams_.size(); ++t) {
    std::vector<std::pair<TeamSum*, Index>> sums;
    for (auto const b : queues_[t].buckets) {
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

std::vector<LowRankMatrix> Reducer::matrices_of(Bucket const& bucket, std::size_t rule) {
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

namespace {

std::string low_rank_name(std::string const& parameter, std::size_t rule, char const* what) {
  return parameter + "/" + std::to_string(rule) + "/" + what;
}

}  // namespace

nn::NamedTensors Reducer::low_rank_state() const {
  nn::NamedTensors state{{"iterations", torch::tensor(counts_.loaded + counts_.begun)}};
  for (auto const& [key, part] : low_rank_) {
    auto const& name = parameters_[key.first].name;
    state.emplace_back(low_rank_name(name, key.second, "factor"), part.factor.clone());
    state.emplace_back(low_rank_name(name, key.second, "error"), part.error.clone());
  }
  return state;
}

void Reducer::load_low_rank_state(nn::NamedTensors const& state) {
  auto const own = low_rank_state();
  bool same = own.size() == state.size();
  for (std::size_t i = 0; same && i < own.size(); ++i)
    same = own[i].first == state[i].first && own[i].second.sizes() == state[i].second.sizes() &&
           own[i].second.scalar_type() == state[i].second.scalar_type();
  if (!same)
    throw Error("StateMismatch", "the saved gradient state belongs to another model, other rules or other ranks");
  counts_.loaded = state.front().second.item<Index>() - counts_.begun;
  std::size_t at = 1;
  for (auto& [key, part] : low_rank_) {
    part.factor.copy_(state[at++].second);
    part.error.copy_(state[at++].second);
  }
}

void Reducer::rebucket() {
  compare("new buckets");
  std::vector<Index> order(iteration_.arrivals.begin(), iteration_.arrivals.end());
  for (auto const& bucket : buckets_)
    for (auto const i : bucket.members)
      if (!parameters_[i].ready) order.push_back(Index(i));
  for (auto const& team : teams_) team.broadcast(order.data(), Index(order.size() * sizeof(Index)), 0);
  Hash hash;
  hash.add(order);
  auto const word = Index(hash.value() >> 1U);
  // Teams that are no grid may have got different orders: the first one stays.
  if (largest(teams_, word) != -largest(teams_, -word)) return;
  make_buckets({order.begin(), order.end()});
}

void Reducer::compare(std::string const& described) {
  renew();
  require_whole();
  graticule::detail::StallScope const scope(stall_rule());
  try {
    for (auto& queue : queues_)
      if (queue.check) queue.check->compare(described + " after iteration " + std::to_string(counts_.begun));
  } catch (Error const& error) {
    if (error.rule() != "PeerFailed") broken_ = std::current_exception();
    throw;
  }
}

void Reducer::begin_join(std::vector<TeamPlace> rules, JoinOptions const& options) {
  join_ = Joining{.rules = std::move(rules), .options = options};
}

void Reducer::end_join() noexcept {
  join_.reset();
  for (std::size_t t = 0; t < teams_.size(); ++t) queues_[t].divisor = teams_[t].num_ranks();
}

void Reducer::count_present() {
  Index const mine = join_->present ? 1 : 0;
  // Ranks that are present, ranks that there are, domains of which a part is present.
  std::array<Index, 3> counts{mine, 1, 0};
  for (auto const& [t, reduction] : join_->rules) {
    std::array<Index, 1> here{mine};
    teams_[t].sum(here);
    if (reduction == nn::Reduction::sum && here[0] != 0 && here[0] != teams_[t].num_ranks()) counts[2] = 1;
    if (join_->options.divisor == JoinDivisor::active_ranks) queues_[t].divisor = double(std::max<Index>(here[0], 1));
  }
  for (auto const& rule : join_->rules) teams_[rule.team].sum(counts);
  join_->num_present = counts[0];
  if (counts[2] > 0)
    throw Error("UnevenInputs", "some ranks of a team whose gradients are summed have no more batches, others do");
  if (join_->options.early_end == EarlyEnd::refused && counts[0] > 0 && counts[0] < counts[1])
    throw Error("UnevenInputs", std::to_string(counts[1] - counts[0]) + " of " + std::to_string(counts[1]) +
                                    " ranks have no more batches");
}

bool Reducer::shadow() {
  complete();
  if (!join_) return false;
  join_->present = false;
  begin();
  if (join_->num_present == 0) return false;
  try {
    complete();
  } catch (Error const& error) {
    // Those that have batches are notified, and may go on.
    if (error.rule() != "PeerFailed" || !has_failed_by_sums()) throw;
  }
  return true;
}

}  // namespace graticule::training::detail
