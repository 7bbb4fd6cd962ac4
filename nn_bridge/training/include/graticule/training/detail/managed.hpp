// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::training {

/// Whether another object decides when the values of a module's parameters are available: `ShardedParameters`, from
/// its construction until `unwrap` or its destruction.
///
/// Code that saves, clones, converts or wraps modules leaves the parameters of managed modules alone. Ignored modules
/// and clones are not managed. May be called from several threads.
[[nodiscard]] bool is_managed(torch::nn::Module const& module);

namespace detail {

/// Names of the parameters of a managed module.
enum class ParameterNames : std::uint8_t { original, replaced };

/// Marks `root` and every module below it, except `ignored` modules and those below them, as managed.
///
/// LibTorch's modules have no attributes, so the marks are in a table of this process, by identity; a mark ends with
/// its module, and clones have none. Marking again replaces the names. May be called from several threads.
void mark_managed(std::shared_ptr<torch::nn::Module> const& root, ParameterNames names,
                  std::vector<std::shared_ptr<torch::nn::Module>> const& ignored = {});
/// Removes the marks from `root` and all modules below it.
void unmark_managed(torch::nn::Module const& root) noexcept;

/// The contents of the mark; nothing for a module that is not managed.
[[nodiscard]] std::optional<ParameterNames> managed_names(torch::nn::Module const& module);
/// @return true for a managed module whose parameters keep their names
[[nodiscard]] bool uses_original_parameters(torch::nn::Module const& module);

}  // namespace detail

}  // namespace graticule::training
