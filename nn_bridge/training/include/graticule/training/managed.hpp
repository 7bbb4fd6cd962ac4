// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace graticule::training {

/// Under which names the parameters of a managed module are found.
enum class ParameterNames : std::uint8_t { original, replaced };

/// Marks `root` and every module below it, but `ignored` ones and what is below those, as managed: something else decides
/// when the values of their parameters are there.
///
/// LibTorch's modules take no attributes, so the marks stand in a table of this process, by identity; a mark ends with
/// its module, and clones have none. Who saves, clones, converts or wraps modules reads them and leaves a managed module's
/// parameters alone. Marking again is no error and replaces the names. May be called from several threads.
void mark_managed(std::shared_ptr<torch::nn::Module> const& root, ParameterNames names,
                  std::vector<std::shared_ptr<torch::nn::Module>> const& ignored = {});
/// Takes the marks from `root` and all modules below it.
void unmark_managed(torch::nn::Module const& root) noexcept;

[[nodiscard]] bool is_managed(torch::nn::Module const& module);
/// What the mark says; nothing for a module that is not managed.
[[nodiscard]] std::optional<ParameterNames> managed_names(torch::nn::Module const& module);
/// @return true for a managed module whose parameters keep their names
[[nodiscard]] bool uses_original_parameters(torch::nn::Module const& module);

}  // namespace graticule::training
