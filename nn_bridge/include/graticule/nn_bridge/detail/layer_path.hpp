// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace graticule::nn::detail {

/// During its lifetime, errors and reports of the layers that this thread calls name them by their path in a model,
/// too.
class LayerPath {
 public:
  /// @param path outlives this object
  explicit LayerPath(std::string const& path) noexcept : outer_(current()) { current() = &path; }
  LayerPath(LayerPath const&) = delete;
  LayerPath& operator=(LayerPath const&) = delete;
  ~LayerPath() { current() = outer_; }

  /// Null where no path is known.
  [[nodiscard]] static std::string const*& current() noexcept;

 private:
  std::string const* outer_;
};

}  // namespace graticule::nn::detail
