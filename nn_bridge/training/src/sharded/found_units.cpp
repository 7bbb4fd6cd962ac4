// SPDX-License-Identifier: BSD-3-Clause
#include "found_units.hpp"

#include <graticule/training/detail/managed.hpp>

#include "data_parallel/gradient_hooks.hpp"
#include "released_storage.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace graticule::training::detail {

namespace {

constexpr char const* root_name = "(root)";

class Search {
 public:
  Search(torch::nn::Module& model, ShardedParametersOptions const& options) : model_(&model), options_(&options) {
    for (auto const& [name, tensor] : nn::parameters_of(model)) names_.emplace(tensor.unsafeGetTensorImpl(), name);
  }

  /// Ignored modules, and what is below them, by identity.
  void ignore(std::shared_ptr<torch::nn::Module> const& module, std::set<torch::nn::Module const*> const& all) {
    if (!module || !all.contains(module.get()))
      throw Error("UnknownName", "an ignored module is not part of the model: " + (module ? module->name() : "none"));
    for (auto const& below : module->modules()) ignored_.insert(below.get());
    for (auto const& [name, tensor] : nn::parameters_of(*module)) whole_.insert(tensor.unsafeGetTensorImpl());
  }

  UnitSearch run() {
    auto rest = visit(*model_, "");
    result_.units.push_back({root_name, model_, dynamic_cast<nn::Hooked*>(model_), std::move(rest)});
    for (auto const& [name, tensor] : nn::parameters_of(*model_))
      if (whole_.contains(tensor.unsafeGetTensorImpl())) result_.ignored.emplace_back(name, tensor);
    for (auto const& unit : result_.units) claim(unit);
    if (owners_.empty()) throw Error("NoParameters", "the model has no parameters to shard");
    return std::move(result_);
  }

 private:
  /// @return the parameters of `module` and of what is below it that are in no unit
  nn::NamedTensors visit(torch::nn::Module& module, std::string const& path) {
    nn::NamedTensors rest;
    if (ignored_.contains(&module)) return rest;
    for (auto const& item : module.named_parameters(/*recurse=*/false)) add(rest, item.value());
    for (auto const& child : module.named_children()) {
      if (units_.contains(child.value().get())) continue;
      auto const child_path = path.empty() ? child.key() : path + "." + child.key();
      auto below = visit(*child.value(), child_path);
      auto* const hooked = dynamic_cast<nn::Hooked*>(child.value().get());
      if (hooked != nullptr && is_unit(child_path, below)) {
        units_.insert(child.value().get());
        result_.units.push_back({child_path, child.value().get(), hooked, std::move(below)});
      } else {
        for (auto const& [name, tensor] : below) add(rest, tensor);
      }
    }
    return rest;
  }

  void add(nn::NamedTensors& list, torch::Tensor const& tensor) {
    if (!tensor.defined()) return;
    auto const& name = names_.at(tensor.unsafeGetTensorImpl());
    if (whole_.contains(tensor.unsafeGetTensorImpl())) {
      result_.notes.push_back(name + " stays whole, because an ignored module has it too");
      return;
    }
    if (GradientHooks::are_on(tensor))
      throw Error("WrongState", "gradients of " + name + " are reduced by another object: destroy that one first");
    if (is_released(tensor))
      throw Error("ParametersChanged", name + " has no values: its ShardedParameters was destroyed without unwrap()");
    if (!tensor.is_contiguous())
      throw Error("UnsupportedTensor", name + " is not contiguous and cannot be cut into rows");
    auto const known = [&](auto const& held) { return held.second.is_same(tensor); };
    if (std::none_of(list.begin(), list.end(), known)) list.emplace_back(name, tensor);
  }

  [[nodiscard]] bool is_unit(std::string const& name, nn::NamedTensors const& parameters) const {
    if (parameters.empty()) return false;
    if (!options_->is_unit) return true;
    std::int64_t count = 0;
    for (auto const& [parameter_name, tensor] : parameters) count += tensor.numel();
    return options_->is_unit(name, count);
  }

  void claim(FoundUnit const& unit) {
    for (auto const& [name, tensor] : unit.parameters) {
      auto const [owner, is_new] = owners_.emplace(tensor.unsafeGetTensorImpl(), unit.name);
      if (!is_new)
        throw Error("WrongState", name + " belongs to the units " + owner->second + " and " + unit.name +
                                      ", which are gathered separately; exclude one of them from the units");
    }
  }

  torch::nn::Module* model_;
  ShardedParametersOptions const* options_;
  std::map<c10::TensorImpl const*, std::string> names_;
  std::set<c10::TensorImpl const*> whole_;
  std::set<torch::nn::Module const*> ignored_;
  std::set<torch::nn::Module const*> units_;
  std::map<c10::TensorImpl const*, std::string> owners_;
  UnitSearch result_;
};

}  // namespace

UnitSearch find_units(std::shared_ptr<torch::nn::Module> const& model, ShardedParametersOptions const& options) {
  if (!model) throw Error("NoParameters", "no model was given");
  std::set<torch::nn::Module const*> all;
  for (auto const& module : model->modules()) {
    all.insert(module.get());
    if (is_managed(*module))
      throw Error("WrongState", module->name() +
                                    " is managed already: parameters are cut once, and a model is "
                                    "wrapped once");
  }
  Search search(*model, options);
  for (auto const& module : options.ignored) search.ignore(module, all);
  return search.run();
}

UnitOrder::UnitOrder(std::vector<FoundUnit> const& units, ShardedParametersOptions const& options)
    : units_(units.size()) {
  auto const place_of = [&](std::string const& name) {
    auto const found = std::find_if(units.begin(), units.end(), [&](auto const& unit) { return unit.name == name; });
    if (found == units.end())
      throw Error("UnknownName", "'" + name + "' is to be gathered ahead, or to gather others, and is no unit");
    return std::size_t(found - units.begin());
  };
  auto const read = [&](auto const& lists, Ahead Unit::*pass) {
    for (auto const& [name, ahead] : lists) {
      auto& places = (units_[place_of(name)].*pass).listed.emplace();
      for (auto const& other : ahead) places.push_back(place_of(other));
    }
  };
  read(options.ahead_in_forward, &Unit::in_forward);
  read(options.ahead_in_backward, &Unit::in_backward);
}

UnitOrder::Places UnitOrder::Ahead::places() const {
  if (listed) return *listed;
  return next ? Places{*next} : Places{};
}

UnitOrder::Places UnitOrder::begin_forward(std::size_t u) {
  if (last_forward_) units_[*last_forward_].in_forward.next = u;
  last_forward_ = u;
  return units_[u].in_forward.places();
}

void UnitOrder::end_forward(std::size_t u) {
  if (!units_[u].in_backward.next) units_[u].in_backward.next = last_ended_;
  last_ended_ = u;
}

UnitOrder::Places UnitOrder::begin_backward(std::size_t u) {
  if (last_backward_ && *last_backward_ != u) units_[*last_backward_].in_backward.next = u;
  last_backward_ = u;
  return units_[u].in_backward.places();
}

void UnitOrder::forget_forward() noexcept {
  last_forward_.reset();
  last_ended_.reset();
}

}  // namespace graticule::training::detail
