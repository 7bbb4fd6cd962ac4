// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/constant.hpp>

#include "conv_geometry.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace graticule::nn::detail {

/// A sparse linear map along one axis: output o is the sum of `weights[e] * input[cells[e]]` over e in
/// `[first[o], first[o + 1])`, in this order.
struct Taps {
  std::vector<Index> first{0};
  std::vector<Index> cells;
  std::vector<double> weights;

  [[nodiscard]] Index num_outputs() const noexcept { return Index(first.size()) - 1; }
  void add(Index cell, double weight);
  void end_output() { first.push_back(Index(cells.size())); }
  /// All cells that are read; empty when there are none.
  [[nodiscard]] Range span() const noexcept;
  /// The identity: each output is the cell of the same number.
  [[nodiscard]] bool is_identity(Range outputs) const noexcept;
};

/// Taps for devices other than the CPU, one place among an output's taps: each of `outputs` gets the cell of the same
/// place in `cells` times that of `weights`.
struct TapSelection {
  Constant outputs;
  Constant cells;
  Constant weights;
};

/// Taps and their transpose, for forward and backward.
class TapMap {
 public:
  /// @param inputs the cells that the input tensor holds; all taps lie there
  TapMap(Taps taps, Range inputs);

  [[nodiscard]] Taps const& there() const noexcept { return there_.taps; }
  [[nodiscard]] Taps const& back() const noexcept { return back_.taps; }
  /// The taps of a way, by their place among an output's taps; made on the first call.
  [[nodiscard]] std::vector<TapSelection> const& selections(bool back) const;

 private:
  /// The taps of one way.
  struct Way {
    Taps taps;
    mutable std::once_flag once = {};
    mutable std::vector<TapSelection> selections = {};
  };

  Way there_;
  Way back_;
};

/// `x` with the map applied along `axis` (counted from the last one), in the memory format of `x`; differentiable to
/// any order. @param x f32 or f64. Cost: one pass over `x` and over the result
[[nodiscard]] torch::Tensor apply_taps(std::shared_ptr<TapMap const> const& map, torch::Tensor const& x,
                                       std::int64_t axis);

}  // namespace graticule::nn::detail
