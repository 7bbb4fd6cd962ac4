// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/detail/clip.hpp>
#include <graticule/training/detail/managed.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "engine.hpp"

#include <c10/util/Type.h>

#include <algorithm>
#include <array>
#include <map>
#include <typeinfo>

namespace graticule::training {

using detail::ShardedParameter;
using detail::ShardEngine;

ShardedParameters::ShardedParameters(std::shared_ptr<torch::nn::Module> model, nn::TeamRule const& shards,
                                     ShardedParametersOptions options)
    : engine_(std::make_shared<ShardEngine>(std::move(model), shards, std::move(options))),
      root_call_(std::make_unique<RootCall>()) {
  if (auto const hooks = engine_->attach()) root_call_->add_hooks(hooks);
}

ShardedParameters::ShardedParameters(ShardedParameters&&) noexcept = default;

ShardedParameters::~ShardedParameters() {
  if (!engine_) return;
  engine_->detach();
  detail::unmark_managed(engine_->model());
}

torch::nn::Module& ShardedParameters::root_module() const noexcept { return engine_->model(); }

std::vector<torch::Tensor> ShardedParameters::parameters() const {
  std::vector<torch::Tensor> result;
  for (auto const* parameter : engine_->parameters()) result.push_back(parameter->shard);
  return result;
}

nn::NamedTensors ShardedParameters::named_parameters() const {
  nn::NamedTensors result;
  for (auto const* parameter : engine_->parameters()) result.emplace_back(parameter->name, parameter->shard);
  return result;
}

namespace {

/// LibTorch's Adagrad has state before its first step.
bool has_stepped(torch::optim::Optimizer& optimizer) {
  auto const& state = optimizer.state();
  return std::any_of(state.begin(), state.end(), [](auto const& entry) {
    auto const* const adagrad = dynamic_cast<torch::optim::AdagradParamState const*>(entry.second.get());
    return adagrad == nullptr || adagrad->step() != 0;
  });
}

/// Gives the rows what Adagrad began with.
void adopt_state(torch::optim::Optimizer& optimizer, torch::Tensor const& whole, torch::Tensor const& shard) {
  auto const found = optimizer.state().find(whole.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return;
  auto state = std::move(found->second);
  optimizer.state().erase(found);
  auto const& options = dynamic_cast<torch::optim::AdagradOptions const&>(optimizer.defaults());
  dynamic_cast<torch::optim::AdagradParamState&>(*state).sum(
      torch::full_like(shard.detach(), options.initial_accumulator_value()));
  optimizer.state()[shard.unsafeGetTensorImpl()] = std::move(state);
}

void require_elementwise(torch::optim::Optimizer const& optimizer, ElementwiseOptimizer elementwise) {
  if (dynamic_cast<torch::optim::LBFGS const*>(&optimizer) != nullptr)
    throw Error("Unsupported", "LBFGS treats all parameters as one vector, of which this rank has some rows only");
  // A class derived from one of these may be another optimizer.
  std::array<std::type_info const*, 5> const known{&typeid(torch::optim::SGD), &typeid(torch::optim::Adam),
                                                   &typeid(torch::optim::AdamW), &typeid(torch::optim::Adagrad),
                                                   &typeid(torch::optim::RMSprop)};
  auto const& kind = typeid(optimizer);
  if (elementwise == ElementwiseOptimizer::vouched ||
      std::any_of(known.begin(), known.end(), [&](auto const* one) { return *one == kind; }))
    return;
  throw Error("Unsupported", c10::demangle(kind.name()) +
                                 " may use more of a parameter than the element that it updates, and this rank has "
                                 "some rows only: adopt one of SGD, Adam, AdamW, Adagrad and RMSprop, or pass "
                                 "ElementwiseOptimizer::vouched for one of your own that does not");
}

}  // namespace

void ShardedParameters::adopt(torch::optim::Optimizer& optimizer, ElementwiseOptimizer elementwise) const {
  require_elementwise(optimizer, elementwise);
  if (has_stepped(optimizer))
    throw Error("WrongState", "adopt an optimizer before its first step: its state is that of whole parameters");
  std::map<c10::TensorImpl const*, torch::Tensor> shards;
  for (auto const* parameter : engine_->parameters())
    shards.emplace(parameter->full.unsafeGetTensorImpl(), parameter->shard);
  for (auto& group : optimizer.param_groups())
    for (auto& tensor : group.params())
      if (auto const found = shards.find(tensor.unsafeGetTensorImpl()); found != shards.end()) {
        adopt_state(optimizer, tensor, found->second);
        tensor = found->second;
      }
}

ShardedParameters::NoSync ShardedParameters::no_sync(Unsynchronised how) { return NoSync(*engine_, how); }

ShardedParameters::NoSync::NoSync(ShardEngine& engine, Unsynchronised how) : engine_(engine.shared_from_this()) {
  engine.set_unsynchronised(how);
}

ShardedParameters::NoSync::~NoSync() { engine_->set_unsynchronised({}); }

ShardedParameters::Gathered ShardedParameters::gathered() { return Gathered(*engine_); }

ShardedParameters::Gathered::Gathered(ShardEngine& engine) : engine_(engine.shared_from_this()) { engine.hold_whole(); }

ShardedParameters::Gathered::~Gathered() { engine_->let_go(); }

double ShardedParameters::clip_grad_norm(double max_norm, ClipOptions const& options) {
  auto const& comm = engine_->team().comm;
  if (!(max_norm >= 0) || !(options.norm_type > 0))
    throw Error("BadOption", "clip_grad_norm needs a norm of at least 0 of a type above 0, got " +
                                 std::to_string(max_norm) + " and type " + std::to_string(options.norm_type));
  std::vector<detail::ClippedPart> parts{{named_parameters(), {comm}}, {engine_->found().ignored, {}, comm}};
  if (options.replicated) {
    auto& replicated = parts.back().parameters;
    replicated.clear();
    for (auto const& tensor : *options.replicated) replicated.emplace_back("a replicated tensor", tensor);
  }
  return detail::scale_gradients(parts, max_norm, options.norm_type, options.non_finite);
}

void ShardedParameters::unwrap() { engine_->unwrap(); }

void ShardedParameters::reset() { engine_->reset(); }

ShardedParameters::Stats ShardedParameters::stats() const { return engine_->stats(); }

void ShardedParameters::reset_stats() { engine_->reset_stats(); }

std::vector<ShardedParameters::UnitInfo> ShardedParameters::units() const {
  std::vector<UnitInfo> result;
  for (auto const& unit : engine_->units()) {
    auto& info = result.emplace_back(UnitInfo{unit->name(), {}, unit->bytes()});
    for (auto const& parameter : unit->parameters()) info.parameters.push_back(parameter.name);
  }
  return result;
}

std::vector<std::string> const& ShardedParameters::notes() const { return engine_->found().notes; }

}  // namespace graticule::training
