// SPDX-License-Identifier: BSD-3-Clause
#include "messages.hpp"

#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>

#include <cstring>

namespace graticule::training::detail {

namespace {

/// Parts of fewer bytes travel together.
constexpr Index small_message_bytes = Index(16) << 10;

/// The same on all ranks: by the largest part.
bool is_small(ShardedParameter const& parameter, Comm const& team, Index element_bytes) {
  return parameter.elements_of(team, 0).size() * element_bytes < small_message_bytes;
}

std::byte* data_of(torch::Tensor const& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

void copy_bytes(std::byte* to, std::byte const* from, std::size_t size) {
  if (size > 0) std::memcpy(to, from, size);
}

/// All other ranks, beginning after this one, so that not all send to the same one first.
std::vector<int> peers_of(Comm const& team) {
  std::vector<int> peers;
  for (int i = 1; i < team.num_ranks(); ++i) peers.push_back((team.rank() + i) % team.num_ranks());
  return peers;
}

}  // namespace

GatherByMessages::GatherByMessages(ShardTeam& team, int tag, std::vector<ShardedParameter> const& parameters,
                                   std::vector<torch::Tensor> flat)
    : flat_(std::move(flat)), lanes_(team.comm, tag) {
  auto const& comm = team.comm;
  auto const num_ranks = std::size_t(comm.num_ranks());
  if (num_ranks == 1) return;
  small_.resize(num_ranks);
  packed_.resize(num_ranks);
  std::vector<std::vector<torch::Tensor>> large(num_ranks);
  for (std::size_t r = 0; r < num_ranks; ++r)
    for (std::size_t i = 0; i < flat_.size(); ++i) {
      auto const part = elements(flat_[i], parameters[i].elements_of(comm, int(r)));
      bool const small = is_small(parameters[i], comm, flat_[i].element_size());
      if (small) packed_[r].add(part.nbytes());
      (small ? small_ : large)[r].push_back(part);
    }
  auto const me = std::size_t(comm.rank());
  for (std::size_t s = 0; s < small_[me].size(); ++s)
    copy_bytes(packed_[me].part(s), data_of(small_[me][s]), small_[me][s].nbytes());
  for (int const r : peers_of(comm)) {
    auto& packed = packed_[std::size_t(r)];
    lanes_.take(r, packed.data(), packed.size());
    for (auto const& part : large[std::size_t(r)]) lanes_.take(r, data_of(part), Index(part.nbytes()));
  }
  for (int const r : peers_of(comm)) {
    lanes_.post(r, packed_[me].data(), packed_[me].size());
    for (auto const& part : large[me]) lanes_.post(r, data_of(part), Index(part.nbytes()));
  }
  team.count(lanes_.sent());
}

void GatherByMessages::finish(ShardTeam& team, std::string const& unit) {
  lanes_.wait("for the other ranks' parameters of " + unit, team.stall);
  if (small_.empty()) return;
  for (int const r : peers_of(team.comm)) {
    auto const& parts = small_[std::size_t(r)];
    for (std::size_t s = 0; s < parts.size(); ++s)
      copy_bytes(data_of(parts[s]), packed_[std::size_t(r)].part(s), parts[s].nbytes());
  }
}

torch::ScalarType wire_type(ShardedParameter const& parameter, ReductionRule const& rule) {
  auto const own = parameter.full.scalar_type();
  return at::isFloatingType(own) ? rule.dtype.value_or(own) : own;
}

torch::Tensor whole_gradient(ShardedParameter const& parameter) {
  auto const gradient = parameter.full.grad();
  nn::detail::require_dense(parameter.name, gradient);
  return gradient.defined() ? gradient.detach() : gradient;
}

bool is_given(ShardedParameter const& parameter, std::vector<char> const& has, ReductionRule const& rule) {
  int with = -1;
  int without = -1;
  for (std::size_t r = 0; r < has.size(); ++r) (has[r] ? with : without) = int(r);
  if (with >= 0 && without >= 0 && rule.unused == Unused::refused)
    throw Error("UnusedParameter", "rank " + std::to_string(without) + " has no gradient of " + parameter.name +
                                       ", rank " + std::to_string(with) + " has");
  return with >= 0;
}

torch::Tensor sum_of(torch::Tensor const& a, torch::Tensor const& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  auto sum = a + b;
  nn::detail::keep_for_current_stream(a);
  nn::detail::keep_for_current_stream(b);
  return sum;
}

void add_reduced(ShardedParameter& parameter, torch::Tensor total, ReductionRule const& rule) {
  if (rule.factor != 1) total.mul_(rule.factor);
  // No view, which an optimizer could not detach.
  total = total.to(parameter.shard.options().requires_grad(false)).resize_(parameter.shard.sizes());
  parameter.reduced = sum_of(parameter.reduced, total);
}

ScatterByMessages::ScatterByMessages(ShardTeam& team, int tag, std::vector<ShardedParameter>& parameters,
                                     ReductionRule const& rule)
    : rule_(rule), lanes_(team.comm, tag) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].needs_gradient) add_part(team.comm, i, parameters[i]);
  for (auto const& part : parts_) nn::detail::await_messages(parameters[part.parameter].full.device());
  pack(team.comm, parameters);
  post(team.comm, parameters);
  team.count(lanes_.sent());
}

void ScatterByMessages::add_part(Comm const& team, std::size_t index, ShardedParameter& parameter) {
  auto const type = wire_type(parameter, rule_);
  auto const gradient = whole_gradient(parameter);
  Part part{index, false, gradient.defined(), {}, {}};
  auto const whole = part.present ? gradient.to(type)
                                  : torch::zeros({parameter.num_rows * parameter.row_numel},
                                                 torch::TensorOptions(type).device(parameter.full.device()));
  part.wire = nn::detail::as_message(whole).view({-1});
  if (part.present) nn::detail::keep_for_current_stream(gradient);
  parameter.full.mutable_grad() = torch::Tensor();
  part.small = is_small(parameter, team, part.wire.element_size());
  auto const mine = parameter.elements_of(team, team.rank());
  for (int r = 0; r < team.num_ranks(); ++r)
    part.by_rank.push_back(r == team.rank() ? elements(part.wire, mine)
                                            : nn::detail::message_memory({mine.size()}, whole));
  parts_.push_back(std::move(part));
}

void ScatterByMessages::pack(Comm const& team, std::vector<ShardedParameter> const& parameters) {
  auto const num_ranks = std::size_t(team.num_ranks());
  sent_.resize(num_ranks);
  received_.resize(num_ranks);
  for (std::size_t r = 0; r < num_ranks; ++r) {
    sent_[r].add(parts_.size());
    received_[r].add(parts_.size());
    for (auto const& part : parts_)
      if (part.small) received_[r].add(part.by_rank[r].nbytes());
    std::vector<torch::Tensor> small;
    for (auto const& part : parts_)
      if (part.small) {
        small.push_back(elements(part.wire, parameters[part.parameter].elements_of(team, int(r))));
        sent_[r].add(small.back().nbytes());
      }
    for (std::size_t i = 0; i < parts_.size(); ++i) sent_[r].part(0)[i] = std::byte(parts_[i].present ? 1 : 0);
    for (std::size_t s = 0; s < small.size(); ++s)
      copy_bytes(sent_[r].part(s + 1), data_of(small[s]), small[s].nbytes());
  }
}

void ScatterByMessages::post(Comm const& comm, std::vector<ShardedParameter> const& parameters) {
  for (int const r : peers_of(comm)) {
    auto& packed = received_[std::size_t(r)];
    lanes_.take(r, packed.data(), packed.size());
    for (auto const& part : parts_)
      if (!part.small) {
        auto const& to = part.by_rank[std::size_t(r)];
        lanes_.take(r, data_of(to), Index(to.nbytes()));
      }
  }
  for (int const r : peers_of(comm)) {
    auto& packed = sent_[std::size_t(r)];
    lanes_.post(r, packed.data(), packed.size());
    for (auto const& part : parts_)
      if (!part.small) {
        auto const from = elements(part.wire, parameters[part.parameter].elements_of(comm, r));
        lanes_.post(r, data_of(from), Index(from.nbytes()));
      }
  }
}

bool ScatterByMessages::present_on(std::size_t part, int rank) {
  return received_[std::size_t(rank)].part(0)[part] != std::byte(0);
}

void ScatterByMessages::finish(ShardTeam& team, std::vector<ShardedParameter>& parameters, std::string const& unit) {
  auto const& comm = team.comm;
  lanes_.wait("for the other ranks' gradients of " + unit, team.stall);
  auto const me = std::size_t(comm.rank());
  for (std::size_t i = 0; i < parts_.size(); ++i) received_[me].part(0)[i] = std::byte(parts_[i].present ? 1 : 0);
  std::size_t number = 1;
  for (auto const& part : parts_) {
    if (!part.small) continue;
    for (int const r : peers_of(comm)) {
      auto const& to = part.by_rank[std::size_t(r)];
      copy_bytes(data_of(to), received_[std::size_t(r)].part(number), to.nbytes());
    }
    ++number;
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    auto const& part = parts_[i];
    auto& parameter = parameters[part.parameter];
    std::vector<char> has;
    for (int r = 0; r < comm.num_ranks(); ++r) has.push_back(present_on(i, r) ? 1 : 0);
    if (!is_given(parameter, has, rule_)) continue;
    std::vector<torch::Tensor> terms;
    for (auto const& term : part.by_rank) terms.push_back(nn::detail::from_message(term, parameter.shard.device()));
    add_reduced(parameter, nn::detail::sum_in_order(terms), rule_);
  }
}

}  // namespace graticule::training::detail
