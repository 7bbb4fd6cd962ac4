// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <torch/torch.h>

namespace graticule::program::detail {

/// Types and device that a program runs with, in place of those in its file.
struct Conversion {
  torch::ScalarType own = torch::kFloat32;     ///< real type that the program was exported with
  torch::ScalarType target = torch::kFloat32;  ///< real type to compute with
  torch::Device device = torch::kCPU;

  /// The type in which a tensor of the file's type is computed.
  ///
  /// Types up to the program's own become the target; wider ones (f64 parts of an f32 program) are kept, unless the
  /// target is wider still. Complex numbers have the precision of their parts, at least f32. Integers are kept.
  [[nodiscard]] torch::ScalarType operator()(Dtype dtype) const;
};

}  // namespace graticule::program::detail
