// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>

#include <string>
#include <vector>

namespace graticule::training::detail {

/// Collects all differences for one error.
class Differences {
 public:
  void add(std::string difference) { all_.push_back(std::move(difference)); }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

  /// @throws `rule` (input) if there is a difference; beyond 8, differences are only counted
  void throw_if_any(std::string const& rule, Checkpoint const& checkpoint) const {
    constexpr std::size_t most = 8;
    if (all_.empty()) return;
    std::string text = checkpoint.path().string() + ": ";
    for (std::size_t i = 0; i < all_.size() && i < most; ++i) text += (i == 0 ? "" : "; ") + all_[i];
    if (all_.size() > most) text += "; and " + std::to_string(all_.size() - most) + " more";
    throw Error(Fault::input, rule, text);
  }

 private:
  std::vector<std::string> all_;
};

/// `f32 (3, 4)`
[[nodiscard]] std::string describe(DType dtype, Indices const& extents);

/// Whether a field can fill a tensor like this one; if not, the difference is added.
void compare(CheckpointField const& field, std::string const& name, torch::Tensor const& tensor,
             Differences& differences);

/// Names of all fields below `prefix/`, without it.
[[nodiscard]] std::vector<std::string> names_below(Checkpoint const& checkpoint, std::string const& prefix);

/// One whole field. Collective; same tensor on all ranks.
void save_tensor(CheckpointWriter& writer, std::string const& name, torch::Tensor const& tensor);
void load_tensor(Checkpoint const& checkpoint, std::string const& name, torch::Tensor const& tensor);

}  // namespace graticule::training::detail
