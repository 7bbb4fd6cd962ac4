// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/state/optimizer.hpp>

#include "optimizer_kinds.hpp"
#include "stored_tensors.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>

namespace graticule::training {

namespace {

using Groups = std::vector<nn::NamedTensors>;
using detail::OptimizerTensors;

/// Those of a model that every rank holds whole.
class WholeTensors : public OptimizerTensors {
 public:
  explicit WholeTensors(torch::nn::Module const& model) : parameters_(nn::parameters_of(model)) {}

  [[nodiscard]] nn::NamedTensors parameters() const override { return parameters_; }
  void save(CheckpointWriter& writer, std::string const& field, std::string const& /*name*/,
            torch::Tensor const& value) const override {
    detail::save_tensor(writer, field, value);
  }
  [[nodiscard]] detail::StoredTensor like(std::string const& name) const override {
    auto const is_it = [&](auto const& held) { return held.first == name; };
    auto const& tensor = std::find_if(parameters_.begin(), parameters_.end(), is_it)->second;
    return {name, tensor.scalar_type(), tensor.sizes()};
  }
  void load(Checkpoint const& checkpoint, std::string const& field, std::string const& /*name*/,
            torch::Tensor const& value) const override {
    detail::load_tensor(checkpoint, field, value, value.scalar_type());
  }

 private:
  nn::NamedTensors parameters_;
};

/// A tensor that shared modules have put into a group twice has one state, and comes once.
Groups named_groups(torch::optim::Optimizer const& optimizer, OptimizerTensors const& tensors) {
  std::map<void*, std::string> names;
  for (auto const& [name, tensor] : tensors.parameters()) names.try_emplace(tensor.unsafeGetTensorImpl(), name);
  Groups groups;
  for (auto const& group : optimizer.param_groups()) {
    auto& named = groups.emplace_back();
    for (auto const& parameter : group.params()) {
      auto const found = names.find(parameter.unsafeGetTensorImpl());
      if (found == names.end())
        throw Error("UnknownName", "the optimizer holds a tensor of " + std::to_string(parameter.numel()) +
                                       " elements that is not a parameter of the model");
      if (std::none_of(named.begin(), named.end(), [&](auto const& held) { return held.second.is_same(parameter); }))
        named.emplace_back(found->second, parameter);
    }
  }
  return groups;
}

std::string group_prefix(std::string const& prefix, std::size_t group) {
  return prefix + "/group." + std::to_string(group);
}

std::string joined(nn::NamedTensors const& group) {
  std::string text;
  for (auto const& [name, tensor] : group) text += name + "\n";
  return text;
}

std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

constexpr Index no_state = -1;

template <class Kind>
void save_group(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer, nn::NamedTensors const& group,
                OptimizerTensors const& tensors, std::string const& prefix, std::size_t number) {
  auto const base = group_prefix(prefix, number);
  writer.add_value(base + "/parameters", joined(group));
  auto const& options = static_cast<typename Kind::Options const&>(optimizer.param_groups()[number].options());
  Kind::options(options, [&](char const* name, auto const& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>)
      writer.add_value(base + "/" + name, Index(value ? 1 : 0));
    else
      writer.add_value(base + "/" + name, value);
  });
  std::vector<Index> steps;
  for (auto const& [name, parameter] : group) {
    auto const* state = detail::state_of<typename Kind::State>(optimizer, parameter);
    Index& step = steps.emplace_back(state == nullptr ? no_state : 0);
    if (state == nullptr) continue;
    Kind::state(*state, [&](char const* part, auto const& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
        if (value.defined()) tensors.save(writer, prefix + "/" + part + "/" + name, name, value);
      } else {
        step = value;
      }
    });
  }
  writer.add_value(base + "/steps", steps);
}

/// The saved steps of a group's parameters by name.
std::map<std::string, Index> saved_steps(Checkpoint const& checkpoint, std::string const& base,
                                         detail::Differences& differences) {
  auto const names = lines_of(checkpoint.value<std::string>(base + "/parameters"));
  auto const steps = checkpoint.value<std::vector<Index>>(base + "/steps");
  std::map<std::string, Index> result;
  for (std::size_t i = 0; i < names.size() && i < steps.size(); ++i) result.emplace(names[i], steps[i]);
  if (result.size() != names.size() || steps.size() != names.size())
    differences.push_back(base + " does not hold one step for each parameter");
  return result;
}

/// What a checkpoint says of an optimizer, compared with the one that is to take it.
template <class Kind>
class Saved {
 public:
  Saved(Checkpoint const& checkpoint, OptimizerTensors const& tensors, std::string prefix)
      : checkpoint_(checkpoint), tensors_(tensors), prefix_(std::move(prefix)) {}

  /// @throws `StateMismatch` (input)
  void compare(Groups const& groups) {
    detail::Differences differences;
    auto const& kind = checkpoint_.value<std::string>(prefix_ + "/kind");
    if (kind != Kind::name)
      differences.push_back("the checkpoint holds the state of " + kind + ", the optimizer is " + Kind::name);
    else
      compare_groups(groups, differences);
    detail::refuse_differences(Fault::input, "StateMismatch", differences, checkpoint_.path().string() + ": ");
  }

  /// Collective. @return the names of parameters that have no state
  [[nodiscard]] std::vector<std::string> apply(torch::optim::Optimizer& optimizer, Groups const& groups) const {
    std::vector<std::string> without_state;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      apply_options(optimizer.param_groups()[g].options(), group_prefix(prefix_, g));
      for (auto const& [name, parameter] : groups[g]) {
        apply_state(optimizer, name, parameter, steps_[g].at(name));
        if (steps_[g].at(name) == no_state) without_state.push_back(name);
      }
    }
    return without_state;
  }

 private:
  void compare_groups(Groups const& groups, detail::Differences& differences) {
    auto const num_groups = checkpoint_.value<Index>(prefix_ + "/num_groups");
    if (num_groups != Index(groups.size())) {
      differences.push_back("the checkpoint holds " + std::to_string(num_groups) +
                            " groups of parameters, the optimizer " + std::to_string(groups.size()));
      return;
    }
    std::set<std::string> known;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      auto const& steps = steps_.emplace_back(saved_steps(checkpoint_, group_prefix(prefix_, g), differences));
      for (auto const& [name, parameter] : groups[g]) {
        if (!steps.contains(name)) differences.push_back("the checkpoint lacks " + name + in_group(g));
        compare_parts(name, known, differences);
      }
      for (auto const& [name, step] : steps)
        if (std::none_of(groups[g].begin(), groups[g].end(), [&](auto const& held) { return held.first == name; }))
          differences.push_back("the optimizer lacks " + name + in_group(g));
    }
    if (!differences.empty()) return;
    for (auto const& name : detail::names_below(checkpoint_, prefix_))
      if (!known.contains(name)) differences.push_back(prefix_ + "/" + name + " belongs to no parameter");
  }

  void compare_parts(std::string const& name, std::set<std::string>& known, detail::Differences& differences) const {
    typename Kind::State const parts;
    Kind::state(parts, [&](std::string const& part, auto const& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
        auto const field = prefix_ + "/" + part + "/" + name;
        if (!checkpoint_.has_field(field)) return;
        known.insert(part + "/" + name);
        auto wanted = tensors_.like(name);
        wanted.name = part + " of " + name;
        detail::compare(checkpoint_.field(field), wanted, differences);
      }
    });
  }

  static std::string in_group(std::size_t group) { return " in group " + std::to_string(group); }

  void apply_options(torch::optim::OptimizerOptions& options, std::string const& base) const {
    Kind::options(static_cast<typename Kind::Options&>(options), [&](char const* name, auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>)
        value = checkpoint_.value<Index>(base + "/" + name) != 0;
      else
        value = checkpoint_.value<double>(base + "/" + name);
    });
  }

  void apply_state(torch::optim::Optimizer& optimizer, std::string const& name, torch::Tensor const& parameter,
                   Index step) const {
    auto& states = optimizer.state();
    auto* const key = parameter.unsafeGetTensorImpl();
    if (step == no_state) {
      states.erase(key);
      return;
    }
    auto state = std::make_unique<typename Kind::State>();
    Kind::state(*state, [&](std::string const& part, auto& value) {
      if constexpr (std::is_same_v<std::decay_t<decltype(value)>, torch::Tensor>) {
        auto const field = prefix_ + "/" + part + "/" + name;
        if (!checkpoint_.has_field(field)) return;
        value = torch::empty_like(parameter.detach());
        tensors_.load(checkpoint_, field, name, value);
      } else {
        value = step;
      }
    });
    states[key] = std::move(state);
  }

  Checkpoint const& checkpoint_;
  OptimizerTensors const& tensors_;
  std::string prefix_;
  std::vector<std::map<std::string, Index>> steps_;
};

}  // namespace

void detail::save_optimizer(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer,
                            OptimizerTensors const& tensors, std::string const& prefix) {
  auto const groups = named_groups(optimizer, tensors);
  with_kind(optimizer, [&](auto kind) {
    using Kind = decltype(kind);
    writer.add_value(prefix + "/kind", std::string(Kind::name));
    writer.add_value(prefix + "/num_groups", Index(groups.size()));
    for (std::size_t g = 0; g < groups.size(); ++g) save_group<Kind>(writer, optimizer, groups[g], tensors, prefix, g);
  });
}

std::vector<std::string> detail::load_optimizer(Comm const& comm, Checkpoint const& checkpoint,
                                                torch::optim::Optimizer& optimizer, OptimizerTensors const& tensors,
                                                std::string const& prefix) {
  std::function<std::vector<std::string>()> apply;
  run_agreed(comm, [&] {
    auto const groups = named_groups(optimizer, tensors);
    with_kind(optimizer, [&](auto kind) {
      Saved<decltype(kind)> saved(checkpoint, tensors, prefix);
      saved.compare(groups);
      apply = [saved, groups, &optimizer] { return saved.apply(optimizer, groups); };
    });
  });
  return apply();
}

void save_optimizer(CheckpointWriter& writer, torch::optim::Optimizer const& optimizer, torch::nn::Module const& model,
                    std::string const& prefix) {
  detail::save_optimizer(writer, optimizer, WholeTensors(model), prefix);
}

std::vector<std::string> load_optimizer(Comm const& comm, Checkpoint const& checkpoint,
                                        torch::optim::Optimizer& optimizer, torch::nn::Module const& model,
                                        std::string const& prefix) {
  WholeTensors const tensors(model);
  return detail::load_optimizer(comm, checkpoint, optimizer, tensors, prefix);
}

}  // namespace graticule::training
