// SPDX-License-Identifier: BSD-3-Clause
#include "peer_reads.hpp"

#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/partition/detail/hash.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace graticule::training::detail {

namespace {

/// Of what lanes would send.
void count_sent(ShardTeam& team, Index bytes) {
  Index const num_peers = team.comm.num_ranks() - 1;
  team.count({num_peers, bytes});
}

void wait_for(ShardTeam const& team, std::function<bool()> const& done, std::string const& what) {
  messages::wait_until(
      team.comm, done, [&] { return "rank " + std::to_string(team.comm.rank()) + " waits " + what; }, team.stall);
}

}  // namespace

BufferPlan PeerGather::plan(Comm const& team, std::vector<ShardedParameter> const& parameters) {
  BufferPlan result;
  // The first rank has the largest parts.
  for (auto const& parameter : parameters)
    result.add(std::size_t(parameter.elements_of(team, 0).size()) * parameter.values.element_size());
  return result;
}

PeerGather::PeerGather(std::shared_ptr<SharedBuffer> shared_buffer, ShardTeam& team, std::string const& unit,
                       std::vector<ShardedParameter> const& parameters, std::vector<torch::Tensor> const& own)
    : shared_(std::move(shared_buffer)) {
  auto const& comm = team.comm;
  auto const places = plan(comm, parameters).at;
  shared_->await_free("parameters of " + unit, team.stall);
  Index bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto const& values = parameters[i].values;
    for (int r = 0; r < comm.num_ranks(); ++r)
      parts_.push_back({r, places[i], elements(values.view({-1}), parameters[i].elements_of(comm, r))});
    shared_->values(comm.rank(), places[i], own[i].numel(), values.scalar_type()).copy_(own[i], /*non_blocking=*/true);
    bytes += (comm.num_ranks() - 1) * own[i].numel() * values.element_size();
  }
  shared_->show();
  count_sent(team, bytes);
}

bool PeerGather::test() {
  torch::NoGradGuard const no_grad;
  return shared_->read([this] {
    for (auto const& [rank, at, to] : parts_)
      if (to.numel() > 0) to.copy_(shared_->values(rank, at, to.numel(), to.scalar_type()), /*non_blocking=*/true);
  });
}

void PeerGather::finish(ShardTeam& team, std::string const& unit) {
  abandoned_ = true;
  wait_for(
      team, [this] { return test(); }, "for the other ranks' parameters of " + unit);
  abandoned_ = false;
  shared_->precede_current();
}

BufferPlan PeerScatter::plan(std::vector<ShardedParameter> const& parameters, ReductionRule const& rule) {
  BufferPlan result;
  for (auto const& parameter : parameters)
    result.add(std::size_t(parameter.num_rows * parameter.row_numel) * c10::elementSize(wire_type(parameter, rule)));
  return result;
}

PeerScatter::PeerScatter(std::shared_ptr<SharedBuffer> shared_buffer, ShardTeam& team, std::string const& unit,
                         std::vector<ShardedParameter>& parameters, ReductionRule const& rule)
    : shared_(std::move(shared_buffer)),
      rule_(rule),
      num_ranks_(team.comm.num_ranks()),
      rank_(team.comm.rank()),
      unit_(unit) {
  auto const& comm = team.comm;
  auto const places = plan(parameters, rule).at;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].needs_gradient)
      parts_.push_back({i, places[i], wire_type(parameters[i], rule), parameters[i].elements_of(comm, comm.rank())});
  std::vector<torch::Tensor> gradients;
  for (auto const& part : parts_) gradients.push_back(whole_gradient(parameters[part.parameter]));
  shared_->await_free("gradients of " + unit, team.stall);
  Index bytes = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    auto const& part = parts_[p];
    auto& parameter = parameters[part.parameter];
    auto const numel = parameter.num_rows * parameter.row_numel;
    auto const place = shared_->values(comm.rank(), part.at, numel, part.type);
    if (gradients[p].defined())
      place.copy_(gradients[p].reshape({-1}), /*non_blocking=*/true);
    else
      place.zero_();
    shared_->host_values(comm.rank())[head_bytes + p] = std::byte(gradients[p].defined() ? 1 : 0);
    if (gradients[p].defined()) nn::detail::keep_for_current_stream(gradients[p]);
    parameter.full.mutable_grad() = torch::Tensor();
    bytes += (numel - part.rows.size()) * Index(c10::elementSize(part.type));
  }
  auto const of_unit = Hash().add(std::string_view(unit)).value();
  std::memcpy(shared_->host_values(comm.rank()), &of_unit, head_bytes);
  shared_->show();
  count_sent(team, bytes);
}

void PeerScatter::require_one_unit() const {
  for (int r = 0; r < num_ranks_; ++r)
    if (std::memcmp(shared_->host_values(r), shared_->host_values(rank_), head_bytes) != 0)
      throw Error("StructureDisagreement", "rank " + std::to_string(r) + " gives gradients of another unit than " +
                                               unit_ + ", which is the next one on rank " + std::to_string(rank_));
}

void PeerScatter::add() {
  require_one_unit();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    auto& part = parts_[p];
    part.has.clear();
    for (int r = 0; r < num_ranks_; ++r)
      part.has.push_back(shared_->host_values(r)[head_bytes + p] != std::byte(0) ? 1 : 0);
    if (std::none_of(part.has.begin(), part.has.end(), [](char one) { return one != 0; })) continue;
    auto const at = part.at + std::size_t(part.rows.lo) * c10::elementSize(part.type);
    auto const term = [&](int r) { return shared_->values(r, at, part.rows.size(), part.type); };
    part.sum = term(0).to(nn::detail::type_of_sums(part.type), false, true);
    for (int r = 1; r < num_ranks_; ++r) part.sum.add_(term(r));
  }
}

bool PeerScatter::test() {
  torch::NoGradGuard const no_grad;
  return shared_->read([this] { add(); });
}

void PeerScatter::finish(ShardTeam& team, std::vector<ShardedParameter>& parameters, std::string const& unit) {
  wait_for(
      team, [this] { return test(); }, "for the other ranks' gradients of " + unit);
  std::vector<Part const*> given;
  for (auto const& part : parts_)
    if (is_given(parameters[part.parameter], part.has, rule_)) given.push_back(&part);
  shared_->precede_current();
  // Copies for the current stream.
  for (auto const* part : given) add_reduced(parameters[part->parameter], part->sum.clone(), rule_);
  shared_->follow_current();
}

}  // namespace graticule::training::detail
