// SPDX-License-Identifier: BSD-3-Clause
#include "late_steps.hpp"

#include <graticule/nn_bridge/detail/message_memory.hpp>

#include <algorithm>
#include <set>

namespace graticule::training::detail {

std::string why_not_late(std::vector<torch::optim::Optimizer*> const& optimizers,
                         std::vector<ReducedParameter> const& parameters) {
  if (optimizers.size() != 1) return std::to_string(optimizers.size()) + " optimizers";
  auto& optimizer = *optimizers.front();
  if (dynamic_cast<torch::optim::LBFGS*>(&optimizer) != nullptr) return "LBFGS updates all parameters at once";
  if (optimizer.param_groups().size() != 1)
    return std::to_string(optimizer.param_groups().size()) + " parameter groups";
  std::set<void const*> wrapped;
  for (auto const& parameter : parameters) wrapped.insert(parameter.tensor.unsafeGetTensorImpl());
  std::set<void const*> stepped;
  for (auto const& tensor : optimizer.param_groups().front().params())
    if (tensor.requires_grad()) stepped.insert(tensor.unsafeGetTensorImpl());
  return wrapped == stepped ? "" : "the optimizer's parameters are not exactly those of the module";
}

struct LateSteps::UnitHooks : nn::ForwardHooks {
  UnitHooks(LateSteps& late, std::size_t number) : steps(late), unit(number) {}
  void before_forward(torch::nn::Module& /*unit*/, std::vector<torch::Tensor>& /*inputs*/) override {
    steps.update(steps.units_[unit].parameters);
  }
  void after_forward(torch::nn::Module& module, std::vector<torch::Tensor>& /*outputs*/) override {
    // Units that the whole model has not run.
    if (&module == root) steps.finalize();
  }
  LateSteps& steps;
  std::size_t unit;
  torch::nn::Module const* root = nullptr;
};

LateSteps::LateSteps(torch::nn::Module& module, torch::optim::Optimizer& optimizer, Reducer& reducer)
    : optimizer_(optimizer), reducer_(reducer), units_(1), due_(reducer.buckets().parameters().size(), false) {
  if (auto const shared = module.weak_from_this().lock()) {
    find_units(shared, 0);
  } else {
    add_parameters(module, 0);
    for (auto const& child : module.children()) find_units(child, 0);
  }
  std::set<std::size_t> in_units;
  for (std::size_t u = 1; u < units_.size(); ++u) {
    units_[u].hooks->root = &module;
    in_units.insert(units_[u].parameters.begin(), units_[u].parameters.end());
  }
  // What is in a unit and outside of all may be used outside of the unit's forward.
  for (auto const i : units_.front().parameters) in_units.erase(i);
  in_units_.assign(in_units.begin(), in_units.end());
  reducer_.set_before([this] { finalize(); });
}

LateSteps::~LateSteps() {
  reducer_.set_before({});
  for (auto const& unit : units_)
    if (auto const module = unit.module.lock()) dynamic_cast<nn::Hooked&>(*module).remove_hooks(unit.hooks.get());
}

void LateSteps::find_units(std::shared_ptr<torch::nn::Module> const& module, std::size_t unit) {
  if (auto* const hooked = dynamic_cast<nn::Hooked*>(module.get())) {
    auto const known =
        std::find_if(units_.begin() + 1, units_.end(), [&](auto const& held) { return held.module.lock() == module; });
    if (known != units_.end()) return;
    unit = units_.size();
    units_.push_back({module, std::make_shared<UnitHooks>(*this, unit), {}});
    hooked->add_hooks(units_.back().hooks);
  }
  add_parameters(*module, unit);
  for (auto const& child : module->children()) find_units(child, unit);
}

void LateSteps::add_parameters(torch::nn::Module const& module, std::size_t unit) {
  auto const& all = reducer_.buckets().parameters();
  for (auto const& item : module.named_parameters(false))
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].tensor.is_same(item.value())) units_[unit].parameters.push_back(i);
}

void LateSteps::step() {
  finalize();
  auto const& own = units_.front().parameters;
  options_ = optimizer_.param_groups().front().options().clone();
  reducer_.await_backward();
  try {
    reducer_.complete(own);
  } catch (Error const& error) {
    // A rank that has failed since has left this step behind it: what fails is its next pass.
    if (error.rule() != "PeerFailed" || !reducer_.end_sums()) throw;
    reducer_.complete(own);
  }
  for (auto const i : own) due_[i] = true;
  reducer_.buckets().hand_over(own);
  reducer_.buckets().hand_over(in_units_);
  for (auto const i : in_units_) due_[i] = true;
  update(own);
}

void LateSteps::finalize() {
  if (std::none_of(due_.begin(), due_.end(), [](bool due) { return due; })) return;
  std::vector<std::size_t> all(due_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  update(all);
}

void LateSteps::update(std::vector<std::size_t> const& parameters) {
  std::vector<std::size_t> now;
  for (auto const i : parameters)
    if (due_[i]) now.push_back(i);
  if (now.empty()) return;
  for (auto const i : now) due_[i] = false;
  std::vector<torch::Tensor> tensors;
  std::vector<torch::Tensor> grads;
  reducer_.complete(now);
  for (auto const i : now) {
    auto& parameter = reducer_.buckets().parameters()[i];
    tensors.push_back(parameter.tensor);
    grads.push_back(std::exchange(parameter.tensor.mutable_grad(), parameter.held));
  }
  std::vector<torch::optim::OptimizerParamGroup> narrow;
  narrow.emplace_back(tensors, options_->clone());
  optimizer_.param_groups().swap(narrow);
  struct Restore {
    ~Restore() { optimizer.param_groups().swap(groups); }
    torch::optim::Optimizer& optimizer;
    std::vector<torch::optim::OptimizerParamGroup>& groups;
  } const restore{optimizer_, narrow};
  optimizer_.step();
  for (std::size_t n = 0; n < now.size(); ++n) {
    auto& parameter = reducer_.buckets().parameters()[now[n]];
    parameter.tensor.mutable_grad() = grads[n];
    if (parameter.held.defined()) nn::detail::keep_for_current_stream(parameter.held);
    parameter.held.reset();
    parameter.handed_over = parameter.reduced = false;
    reducer_.log().note(DataParallel::Event::Kind::updated, now[n]);
  }
}

}  // namespace graticule::training::detail
