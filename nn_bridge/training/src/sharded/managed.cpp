// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/training/detail/managed.hpp>

#include <map>
#include <mutex>
#include <set>

namespace graticule::training::detail {

namespace {

struct Mark {
  std::weak_ptr<torch::nn::Module> module;
  ParameterNames names;
};

struct Marks {
  std::mutex mutex;
  std::map<torch::nn::Module const*, Mark> marks;

  /// The address of a module that has ended may be that of another one now.
  std::optional<ParameterNames> names_of(torch::nn::Module const& module) {
    std::lock_guard const lock(mutex);
    auto const found = marks.find(&module);
    if (found == marks.end()) return {};
    if (!found->second.module.expired()) return found->second.names;
    marks.erase(found);
    return {};
  }
};

Marks& marks() {
  static Marks once;
  return once;
}

}  // namespace

void mark_managed(std::shared_ptr<torch::nn::Module> const& root, ParameterNames names,
                  std::vector<std::shared_ptr<torch::nn::Module>> const& ignored) {
  std::set<torch::nn::Module const*> left_out;
  for (auto const& module : ignored)
    for (auto const& below : module->modules()) left_out.insert(below.get());
  std::lock_guard const lock(marks().mutex);
  for (auto const& module : root->modules())
    if (!left_out.contains(module.get())) marks().marks.insert_or_assign(module.get(), Mark{module, names});
}

void unmark_managed(torch::nn::Module const& root) noexcept {
  std::lock_guard const lock(marks().mutex);
  marks().marks.erase(&root);
  for (auto const& module : root.modules(/*include_self=*/false)) marks().marks.erase(module.get());
}

std::optional<ParameterNames> managed_names(torch::nn::Module const& module) { return marks().names_of(module); }

bool uses_original_parameters(torch::nn::Module const& module) {
  return managed_names(module) == ParameterNames::original;
}

}  // namespace graticule::training::detail

namespace graticule::training {

bool is_managed(torch::nn::Module const& module) { return detail::managed_names(module).has_value(); }

}  // namespace graticule::training
