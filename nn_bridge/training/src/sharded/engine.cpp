// SPDX-License-Identifier: BSD-3-Clause
#include "engine.hpp"

#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <map>

namespace graticule::training::detail {

namespace {

/// The hooks of one unit; they outlive the engine where a copy of a list of hooks does.
class UnitHooks : public nn::ForwardHooks {
 public:
  UnitHooks(std::weak_ptr<ShardEngine> engine, std::size_t unit) : engine_(std::move(engine)), unit_(unit) {}

  void before_forward(torch::nn::Module& /*unit*/, std::vector<torch::Tensor>& inputs) override {
    if (auto const engine = engine_.lock()) engine->begin_forward(unit_, inputs);
  }
  void after_forward(torch::nn::Module& /*unit*/, std::vector<torch::Tensor>& outputs) override {
    if (auto const engine = engine_.lock()) engine->end_forward(unit_, outputs);
  }
  void forward_failed(torch::nn::Module& /*unit*/) noexcept override {
    if (auto const engine = engine_.lock()) engine->fail_forward(unit_);
  }

 private:
  std::weak_ptr<ShardEngine> engine_;
  std::size_t unit_;
};

/// Gives inputs of other floating-point types the one that parameters are gathered in.
void cast(std::vector<torch::Tensor>& inputs, std::optional<torch::ScalarType> const& type) {
  for (auto& input : inputs)
    if (type && input.defined() && at::isFloatingType(input.scalar_type()) && input.scalar_type() != *type)
      input = input.to(*type);
}

/// Sums gradients of shards over a team of ranks that have the same rows. One that no rank has stays undefined.
void sum_over_replicas(nn::TeamRule const& rule, std::vector<ShardedParameter*> const& parameters) {
  auto const& comm = rule.team;
  if (comm.num_ranks() == 1) return;
  // Of all parameters: whether any rank has a gradient, then whether any rank has it on the host.
  std::vector<Index> found;
  for (auto const* parameter : parameters) found.push_back(parameter->reduced.defined() ? 1 : 0);
  for (auto const* parameter : parameters) found.push_back(parameter->shard.is_cpu() ? 1 : 0);
  comm.max(found);
  struct Group {
    std::vector<ShardedParameter*> members;
    nn::detail::AddedOn added_on = nn::detail::AddedOn::device;
  };
  std::map<torch::ScalarType, Group> by_dtype;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (found[i] == 0) continue;
    auto& parameter = *parameters[i];
    if (!parameter.reduced.defined())
      parameter.reduced = torch::zeros(parameter.shard.sizes(), parameter.shard.options().requires_grad(false));
    auto& group = by_dtype[parameter.reduced.scalar_type()];
    group.members.push_back(&parameter);
    if (found[parameters.size() + i] != 0) group.added_on = nn::detail::AddedOn::host;
  }
  for (auto const& [dtype, group] : by_dtype) {
    std::vector<torch::Tensor> parts;
    for (auto const* parameter : group.members) parts.push_back(parameter->reduced.view({-1}));
    auto flat = torch::cat(parts);
    nn::detail::sum_in_place(comm, flat, group.added_on);
    if (rule.reduction == nn::Reduction::mean) flat.div_(comm.num_ranks());
    std::int64_t offset = 0;
    for (auto* parameter : group.members) {
      auto const count = parameter->shard.numel();
      nn::detail::keep_for_current_stream(parameter->reduced);
      parameter->reduced = flat.narrow(0, offset, count).clone().resize_(parameter->shard.sizes());
      offset += count;
    }
  }
}

bool in_backward() { return torch::autograd::get_current_graph_task_id() >= 0; }

}  // namespace

std::shared_ptr<nn::ForwardHooks> ShardEngine::attach() {
  std::shared_ptr<nn::ForwardHooks> left;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    hooks_.push_back(std::make_shared<UnitHooks>(weak_from_this(), u));
    if (auto* const hooked = found_.units[u].hooked)
      hooked->add_hooks(hooks_.back());
    else
      left = hooks_.back();
  }
  return left;
}

void ShardEngine::detach() noexcept {
  for (std::size_t u = 0; u < hooks_.size(); ++u)
    if (auto* const hooked = found_.units[u].hooked) hooked->remove_hooks(hooks_[u].get());
  hooks_.clear();
}

void ShardEngine::begin_forward(std::size_t u, std::vector<torch::Tensor>& inputs) {
  auto& calls = calls_[u];
  bool const outermost = !any_forward_open();
  calls.forwards.push_back(torch::GradMode::is_enabled() ? ++last_call_ : 0);
  auto const call = calls.forwards.back();
  if (!tasks_.empty() && !in_backward())
    throw Error("WrongState", "a backward has ended with an exception: call reset() on all ranks before " +
                                  units_[u]->name() + " is used");
  units_[u]->require_needs_of_gradients();
  progress();
  compare("the forward", u);
  // What has been kept since another forward may have changed: by an optimizer, or a file.
  for (std::size_t other = 0; outermost && other < units_.size(); ++other)
    if (calls_[other].backwards.empty()) release(other);
  make_whole(u);
  if (!calls_[root()].forwards.empty()) gather_ahead(order_.begin_forward(u));
  cast(inputs, options_.precision.parameters);
  notify(Event::forward_begun, u);
  if (call == 0) return;
  for (auto const& input : inputs)
    if (input.defined() && input.requires_grad() && !input.is_leaf())
      input.register_hook([weak = weak_from_this(), u, call](torch::Tensor const& /*gradient*/) {
        if (auto const engine = weak.lock()) engine->end_backward(u, call);
      });
}

void ShardEngine::end_forward(std::size_t u, std::vector<torch::Tensor> const& outputs) {
  auto& calls = calls_[u];
  auto const call = calls.forwards.back();
  bool has_backward = false;
  if (call != 0) {
    if (outputs.empty() && units_[u]->is_trainable())
      throw Error("Unsupported", "the forward of " + units_[u]->name() +
                                     " returns no tensors, so its backward cannot be observed: "
                                     "return tensors, vectors or tuples of them");
    auto const version = units_[u]->version();
    auto const call_end = ++last_call_;
    for (auto const& output : outputs) {
      if (!output.defined() || !output.requires_grad()) continue;
      has_backward = true;
      output.register_hook([weak = weak_from_this(), u, call, call_end, version](torch::Tensor const& /*gradient*/) {
        if (auto const engine = weak.lock()) engine->begin_backward(u, call, call_end, version);
      });
    }
  }
  if (has_backward) {
    calls.open.insert(call);
    order_.end_forward(u);
  }
  calls.forwards.pop_back();
  notify(Event::forward_ended, u);
  if (has_backward && between_passes(u) == BetweenPasses::in_groups) units_[u]->keep_in_group();
  if (calls.idle() && !(has_backward && between_passes(u) == BetweenPasses::kept)) release(u);
  if (u != root() || !calls.forwards.empty()) return;
  order_.forward_is_over();
  for (std::size_t other = 0; other < units_.size(); ++other)
    if (calls_[other].idle() && units_[other]->state() == ShardUnit::State::gathering) release(other);
}

void ShardEngine::fail_forward(std::size_t u) noexcept {
  calls_[u].forwards.pop_back();
  if (any_forward_open()) return;
  order_.forget_forward();
  // The exception of the forward is the one to be seen, not those that follow from it.
  auto const quietly = [](auto const& action) {
    try {
      action();
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  };
  quietly([&] {
    if (comparison_ && !disagreed_) comparison_->compare("an exception in a forward");
  });
  quietly([&] { release_idle(); });
  disagreed_ = false;
}

void ShardEngine::begin_backward(std::size_t u, Index call, Index call_end, std::int64_t version) {
  auto& calls = calls_[u];
  if (calls.backwards.contains(call)) {
    // Another output, whose operations may be in another stream.
    if (units_[u]->state() == ShardUnit::State::gathered) units_[u]->use_in_current_stream();
    units_[u]->add_backward_in_current_stream();
    return;
  }
  if (torch::GradMode::is_enabled())
    throw Error("Unsupported",
                "the backward of " + units_[u]->name() + ", whose parameters are sharded, cannot be differentiated");
  auto const task = torch::autograd::get_current_graph_task_id();
  if (tasks_.emplace(task, 0).second)
    torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), task] {
      if (auto const engine = weak.lock()) engine->end_task(task);
    });
  end_backwards_after(call_end);
  compare("the backward", u);
  if (units_[u]->version() != version)
    throw Error("ParametersChanged",
                "parameters of " + units_[u]->name() + " have changed between its forward and its backward");
  calls.backwards.emplace(call, task);
  tasks_.at(task) = std::max(tasks_.at(task), call);
  progress();
  make_whole(u);
  units_[u]->add_backward_in_current_stream();
  notify(Event::backward_begun, u);
  gather_ahead(order_.begin_backward(u));
}

void ShardEngine::end_backwards_after(Index number) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    std::vector<Index> ended;
    for (auto const& [call, task] : calls_[u].backwards)
      if (call > number) ended.push_back(call);
    for (auto const call : ended) end_backward(u, call);
  }
}

void ShardEngine::end_backward(std::size_t u, Index call) {
  auto& calls = calls_[u];
  if (calls.backwards.erase(call) == 0) return;
  calls.open.erase(call);
  if (calls.open.empty()) units_[u]->leave_group();
  progress();
  if (!calls.idle()) return;
  notify(Event::backward_ended, u);
  bool const complete = calls.open.empty() && units_[u]->is_trainable();
  release(u);
  if (complete && unsynchronised_ != Unsynchronised::whole) start_scatter(u);
}

void ShardEngine::end_task(int task) {
  torch::NoGradGuard const no_grad;
  auto const last_call = tasks_.at(task);
  compare("the end of a backward", root());
  order_.backward_is_over();
  for (auto& calls : calls_) {
    std::erase_if(calls.backwards, [&](auto const& running) { return running.second == task; });
    // Calls of this graph, or older ones, whose outputs were no part of it.
    std::erase_if(calls.open, [&](Index call) { return call <= last_call; });
  }
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (calls_[u].open.empty()) units_[u]->leave_group();
  release_idle();
  finish_scatter();
  if (unsynchronised_ != Unsynchronised::whole) {
    scatter_rest();
    settle();
  }
  tasks_.erase(task);
}

void ShardEngine::make_whole(std::size_t u) {
  auto& unit = *units_[u];
  if (unit.state() == ShardUnit::State::gathered && num_holds_ > 0 && unit.is_outdated())
    throw Error("ParametersChanged", "parameters of " + unit.name() + " have changed within gathered()");
  if (unit.state() == ShardUnit::State::gathered) {
    unit.use_in_current_stream();
    return;
  }
  if (unit.state() == ShardUnit::State::released) start_gather(u);
  unit.finish_gather();
  notify(Event::gather_waited, u);
}

void ShardEngine::start_gather(std::size_t u) {
  auto& unit = *units_[u];
  make_shared_buffers();
  // Only a backward that follows a forward finds what its group has kept then: the rows may have changed since others.
  bool const from_group = in_backward() && unit.is_in_group();
  unit.start_gather(from_group ? ShardUnit::Source::group : ShardUnit::Source::team);
  ++stats_.gathers;
  if (from_group) ++stats_.group_gathers;
  stats_.peak_gathered_bytes = std::max(stats_.peak_gathered_bytes, stats().gathered_bytes);
  notify(Event::gather_posted, u);
}

void ShardEngine::gather_ahead(UnitOrder::Places const& wanted) {
  for (auto const u : wanted) {
    auto const in_flight = std::count_if(units_.begin(), units_.end(),
                                         [](auto const& unit) { return unit->state() == ShardUnit::State::gathering; });
    if (in_flight >= options_.num_prefetched) return;
    if (units_[u]->state() != ShardUnit::State::released) continue;
    start_gather(u);
    ++stats_.gathers_ahead;
  }
}

void ShardEngine::release(std::size_t u) {
  if (num_holds_ > 0 || units_[u]->state() == ShardUnit::State::released) return;
  units_[u]->release();
  notify(Event::released, u);
}

void ShardEngine::release_idle() {
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (calls_[u].idle()) release(u);
}

void ShardEngine::start_scatter(std::size_t u) {
  compare("the gradients", u);
  finish_scatter();
  units_[u]->start_scatter(reduction_);
  scattering_ = u;
  ++stats_.scatters;
  notify(Event::gradients_posted, u);
}

void ShardEngine::finish_scatter() {
  if (!scattering_) return;
  auto const u = *scattering_;
  scattering_.reset();
  units_[u]->finish_scatter();
  notify(Event::gradients_summed, u);
}

void ShardEngine::scatter_rest() {
  std::vector<Index> left;
  for (auto const& unit : units_) left.push_back(unit->has_gradients() ? 1 : 0);
  if (team_.comm.num_ranks() > 1) team_.comm.max(left);
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (left[u] != 0) start_scatter(u);
  finish_scatter();
}

void ShardEngine::settle() {
  auto const all = parameters();
  for (auto* parameter : all) {
    auto const sum = sum_of(parameter->held, parameter->reduced);
    bool const waits = unsynchronised_.has_value();
    parameter->held = waits ? sum : torch::Tensor();
    parameter->reduced = waits ? torch::Tensor() : sum;
  }
  if (unsynchronised_) return;
  for (auto const& rule : options_.replicas) sum_over_replicas(rule, all);
  for (auto* parameter : all) {
    if (!parameter->reduced.defined()) continue;
    auto& gradient = parameter->shard.mutable_grad();
    if (gradient.defined())
      gradient.add_(parameter->reduced);
    else
      gradient = parameter->reduced;
    nn::detail::keep_for_current_stream(parameter->reduced);
    parameter->reduced = torch::Tensor();
  }
}

void ShardEngine::compare(std::string const& what, std::size_t u) {
  if (!comparison_) return;
  try {
    comparison_->compare(what + " of " + units_[u]->name());
  } catch (...) {
    disagreed_ = true;
    throw;
  }
}

void ShardEngine::progress() {
  for (auto const& unit : units_) unit->progress();
}

void ShardEngine::notify(Event event, std::size_t u) const {
  if (options_.on_event) options_.on_event(event, units_[u]->name());
}

bool ShardEngine::any_forward_open() const {
  return std::any_of(calls_.begin(), calls_.end(), [](auto const& calls) { return !calls.forwards.empty(); });
}

}  // namespace graticule::training::detail
