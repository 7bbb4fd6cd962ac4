// SPDX-License-Identifier: BSD-3-Clause
#include "unit.hpp"

#include <graticule/nn_bridge/detail/message_memory.hpp>

#include "peer_reads.hpp"
#include "released_storage.hpp"

#include <algorithm>

namespace graticule::training::detail {

namespace {

ShardedParameter cut(Comm const& team, std::string const& name, torch::Tensor const& whole,
                     std::optional<torch::ScalarType> gathered_dtype) {
  ShardedParameter result;
  result.name = name;
  result.full = whole;
  result.num_rows = num_rows_of(whole);
  result.row_numel = result.num_rows > 0 ? whole.numel() / result.num_rows : 0;
  auto const rows = shard_rows(result.num_rows, team.num_ranks(), team.rank());
  auto const all_rows = whole.detach().reshape({-1});
  auto sizes = whole.sizes().vec();
  if (!sizes.empty())
    sizes.front() = rows.size();
  else if (rows.size() == 0)
    sizes.push_back(0);
  result.shard = elements(all_rows, result.elements_of(team, team.rank())).clone().view(sizes);
  result.needs_gradient = whole.requires_grad();
  result.shard.set_requires_grad(result.needs_gradient);
  auto const type =
      at::isFloatingType(whole.scalar_type()) ? gathered_dtype.value_or(whole.scalar_type()) : whole.scalar_type();
  result.values = torch::empty(whole.sizes(), whole.options().dtype(type).requires_grad(false));
  result.full.mutable_grad() = torch::Tensor();
  result.full.set_data(result.values);
  return result;
}

}  // namespace

ShardUnit::ShardUnit(ShardTeam& team, ShardTeam* group, std::string name,
                     std::vector<std::pair<std::string, torch::Tensor>> const& whole,
                     std::optional<torch::ScalarType> gathered_dtype)
    : team_(&team),
      group_(group),
      name_(std::move(name)),
      gather_tag_(team.comm.next_tag()),
      scatter_tag_(team.comm.next_tag()) {
  torch::NoGradGuard const no_grad;
  if (group_ != nullptr) group_tag_ = group_->comm.next_tag();
  for (auto const& [parameter_name, tensor] : whole) {
    auto& parameter = parameters_.emplace_back(cut(team.comm, parameter_name, tensor, gathered_dtype));
    bytes_ += Index(parameter.values.nbytes());
    release_storage(parameter.values, released_text(parameter));
  }
}

ShardUnit::~ShardUnit() {
  // MPI may still write to what is in flight: its memory is then left to it.
  if (gather_ && gather_->in_messages()) {
    for (auto const& parameter : parameters_) keep_for_good(parameter.values);
    keep_for_good(std::move(gather_));
  }
  if (scatter_ && scatter_->in_messages()) keep_for_good(std::move(scatter_));
  std::erase_if(unwaited_, [](Unwaited const& left) { return left.test(); });
  if (!unwaited_.empty()) keep_for_good(std::move(unwaited_));
}

std::string ShardUnit::released_text(ShardedParameter const& parameter) const {
  return "ParametersChanged: the values of " + parameter.name + " are there in forward and backward of " + name_ +
         " only, and while ShardedParameters::gathered() lasts";
}

bool ShardUnit::is_trainable() const {
  return std::any_of(parameters_.begin(), parameters_.end(), [](auto const& p) { return p.needs_gradient; });
}

void ShardUnit::require_needs_of_gradients() const {
  for (auto const& parameter : parameters_)
    if (parameter.full.requires_grad() && !parameter.needs_gradient)
      throw Error("ParametersChanged", parameter.name + " of " + name_ +
                                           " required no gradient when it was sharded, and does so now: unwrap() the "
                                           "model and shard it again");
}

bool ShardUnit::has_gradients() const {
  return std::any_of(parameters_.begin(), parameters_.end(), [](auto const& p) { return p.full.grad().defined(); });
}

std::int64_t ShardUnit::version() const {
  std::int64_t sum = 0;
  for (auto const& parameter : parameters_) sum += parameter.shard._version();
  return sum;
}

void ShardUnit::start_gather(Source source) {
  torch::NoGradGuard const no_grad;
  for (auto const& parameter : parameters_)
    if (parameter.full.storage().unsafeGetStorageImpl() != parameter.values.storage().unsafeGetStorageImpl())
      throw Error("ParametersChanged", parameter.name + " of " + name_ +
                                           " has been given other memory: move or convert a model before its "
                                           "parameters are sharded, and load values by load_full_state");
  staged_.clear();
  gathered_from_ = source == Source::group ? group_ : team_;
  if (source == Source::group) group_parts_in_.precede_current();
  std::vector<torch::Tensor> own;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    own.push_back(source == Source::group ? group_parts_[i] : parameters_[i].shard.detach().view({-1}));
  if (auto const& shared_buffer = shared_buffers_[std::size_t(source)]) {
    for (auto const& parameter : parameters_) refill_storage(parameter.values);
    try {
      gather_ = std::make_unique<PeerGather>(shared_buffer, *gathered_from_, name_, parameters_, own);
    } catch (...) {
      for (auto const& parameter : parameters_) release_storage(parameter.values, released_text(parameter));
      throw;
    }
    for (auto const& part : own) nn::detail::keep_for_current_stream(part);
    gathered_version_ = version();
    state_ = State::gathering;
    return;
  }
  std::vector<torch::Tensor> flat;
  auto const& comm = gathered_from_->comm;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto const& parameter = parameters_[i];
    refill_storage(parameter.values);
    bool const on_host = parameter.values.is_cpu();
    staged_.push_back(on_host ? torch::Tensor()
                              : nn::detail::message_memory(parameter.values.sizes(), parameter.values));
    flat.push_back((on_host ? parameter.values : staged_.back()).view({-1}));
    elements(flat.back(), parameter.elements_of(comm, comm.rank())).copy_(own[i], /*non_blocking=*/true);
  }
  for (auto const& parameter : parameters_) nn::detail::await_messages(parameter.values.device());
  gathered_version_ = version();
  state_ = State::gathering;
  auto const tag = source == Source::group ? group_tag_ : gather_tag_;
  gather_ = std::make_unique<GatherByMessages>(*gathered_from_, tag, parameters_, std::move(flat));
}

void ShardUnit::finish_gather() {
  gather_->finish(*gathered_from_, name_);
  torch::NoGradGuard const no_grad;
  for (std::size_t i = 0; i < staged_.size(); ++i)
    if (staged_[i].defined()) parameters_[i].values.copy_(staged_[i], /*non_blocking=*/true);
  gather_.reset();
  staged_.clear();
  whole_in_.clear();
  for (auto const& parameter : parameters_) {
    nn::detail::keep_for_current_stream(parameter.values);
    whole_in_.add_current(parameter.values.device());
  }
  state_ = State::gathered;
}

void ShardUnit::use_in_current_stream() const {
  whole_in_.precede_current();
  for (auto const& parameter : parameters_) nn::detail::keep_for_current_stream(parameter.values);
}

void ShardUnit::add_backward_in_current_stream() {
  for (auto const& parameter : parameters_) gradients_in_.add_current(parameter.values.device());
}

void ShardUnit::release() {
  if (gather_ && gather_->abandoned()) return;
  if (state_ == State::gathering) finish_gather();
  if (state_ == State::released) return;
  for (auto const& parameter : parameters_) release_storage(parameter.values, released_text(parameter));
  state_ = State::released;
}

void ShardUnit::keep_in_group() {
  torch::NoGradGuard const no_grad;
  group_parts_.clear();
  group_parts_in_.clear();
  for (auto const& parameter : parameters_) {
    group_parts_.push_back(
        elements(parameter.values.view({-1}), parameter.elements_of(group_->comm, group_->comm.rank())).clone());
    group_parts_in_.add_current(parameter.values.device());
  }
}

Index ShardUnit::group_bytes() const noexcept {
  Index bytes = 0;
  for (auto const& part : group_parts_) bytes += Index(part.nbytes());
  return bytes;
}

void ShardUnit::start_scatter(ReductionRule const& rule) {
  torch::NoGradGuard const no_grad;
  gradients_in_.precede_current();
  gradients_in_.clear();
  if (team_->gradients)
    scatter_ = std::make_unique<PeerScatter>(team_->gradients, *team_, name_, parameters_, rule);
  else
    scatter_ = std::make_unique<ScatterByMessages>(*team_, scatter_tag_, parameters_, rule);
}

void ShardUnit::finish_scatter() {
  torch::NoGradGuard const no_grad;
  auto scatter = std::move(scatter_);
  try {
    scatter->finish(*team_, parameters_, name_);
  } catch (...) {
    if (scatter->abandoned()) keep_for_good(std::move(scatter));
    throw;
  }
}

void ShardUnit::progress() {
  if (gather_) (void)gather_->test();
  if (scatter_) (void)scatter_->test();
  std::erase_if(unwaited_, [](Unwaited const& left) { return left.test(); });
}

void ShardUnit::reset() {
  Unwaited unwaited;
  if (gather_ && gather_->in_messages()) {
    for (auto const& parameter : parameters_) unwaited.memory.push_back(take_storage(parameter.values));
    unwaited.gather = std::move(gather_);
  }
  gather_.reset();
  staged_.clear();
  if (scatter_ && scatter_->in_messages()) unwaited.scatter = std::move(scatter_);
  scatter_.reset();
  if (unwaited.gather || unwaited.scatter) unwaited_.push_back(std::move(unwaited));
  // What others have shown may never be read: the next gather makes new ones.
  for (auto& shared_buffer : shared_buffers_) {
    if (shared_buffer) shared_buffer->give_up();
    shared_buffer.reset();
  }
  // Messages of others that are under way meet no call of the next backward.
  gather_tag_ = team_->comm.next_tag();
  scatter_tag_ = team_->comm.next_tag();
  if (group_ != nullptr) group_tag_ = group_->comm.next_tag();
  leave_group();
  gradients_in_.clear();
  if (state_ != State::released) {
    state_ = State::gathered;
    release();
  }
  for (auto& parameter : parameters_) {
    parameter.full.mutable_grad() = torch::Tensor();
    parameter.reduced = torch::Tensor();
  }
}

void ShardUnit::restore(std::vector<torch::Tensor> const& whole) {
  release();
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].full.set_data(whole[i]);
}

torch::Tensor gather_whole(ShardTeam& team, ShardedParameter const& parameter, torch::Tensor const& shard,
                           Receivers receivers) {
  torch::NoGradGuard const no_grad;
  auto const& comm = team.comm;
  messages::Lanes lanes(comm);
  auto const part = [&](torch::Tensor const& flat, int r) { return elements(flat, parameter.elements_of(comm, r)); };
  auto const& mine = lanes.keep(shard.detach().to(torch::kCPU).contiguous().view({-1}));
  torch::Tensor whole;
  if (receivers == Receivers::all || comm.rank() == 0) {
    whole = lanes.keep(torch::empty({parameter.num_rows * parameter.row_numel}, mine.options()));
    part(whole, comm.rank()).copy_(mine);
    for (int r = 0; r < comm.num_ranks(); ++r)
      if (r != comm.rank()) lanes.take(r, part(whole, r).mutable_data_ptr(), Index(part(whole, r).nbytes()));
  }
  for (int r = 0; r < comm.num_ranks(); ++r)
    if (r != comm.rank() && (receivers == Receivers::all || r == 0))
      lanes.post(r, mine.const_data_ptr(), Index(mine.nbytes()));
  team.count(lanes.sent());
  lanes.wait("for the other ranks' rows of " + parameter.name, team.stall);
  return whole.defined() ? whole.view(parameter.full.sizes()) : whole;
}

}  // namespace graticule::training::detail
