// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/constant.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/partition/layout.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace graticule::nn::detail {

/// Losses of a difference d = prediction - target.
enum class DifferenceKind : std::uint8_t {
  absolute,  ///< |d|
  squared,   ///< d^2
  huber,     ///< d^2 / 2 up to `bend`, then a straight line of slope `bend`
  smooth,    ///< huber / bend
};

struct DifferenceLoss {
  DifferenceKind kind = DifferenceKind::squared;
  double bend = 1;
};

/// Sums over the last axis in f64: [..., columns] to [..., 1]. The backward returns a view, which needs no memory.
/// Rows are summed one after the other in four interleaved partial sums: the same bits for any number of threads.
/// @param x real floating-point
[[nodiscard]] torch::Tensor row_sums(torch::Tensor const& x);

/// `row_sums` of the loss of each cell, in one pass over prediction and target, and one for the gradients, which are
/// the only allocation of the fields' size. Differentiable to any order. @param p, t of the same sizes and dtype, f32
/// or f64
[[nodiscard]] torch::Tensor row_sums(DifferenceLoss const& loss, torch::Tensor const& p, torch::Tensor const& t);

/// The loss of each cell.
[[nodiscard]] torch::Tensor elements(DifferenceLoss const& loss, torch::Tensor const& p, torch::Tensor const& t);

/// Per cell of this rank, [..., rows, columns]: the term of the sum, and its share in the divisor (undefined: 1).
struct LossTerms {
  torch::Tensor elements;
  torch::Tensor counts;
};

/// The same summed over columns, [..., rows, 1] in f64; counts that are undefined are `num_columns` everywhere.
struct LossSums {
  torch::Tensor sums;
  torch::Tensor counts;
  std::int64_t num_columns = 0;
};

/// Weights of whole axes, in f64; none: all 1.
struct AxisWeights {
  std::optional<Constant> rows;      ///< [rows, 1]
  std::optional<Constant> channels;  ///< [channels]
  std::optional<Constant> levels;    ///< [levels]
};

/// One kind of loss.
struct LossFunction {
  std::string name;
  std::string parameters = {};  ///< in words; the same on all ranks
  /// The axis of the prediction that its terms lack, from the front.
  std::optional<std::int64_t> removed_axis = {};
  bool has_channels = true;  ///< as axis 1 of the terms
  std::function<void(torch::Tensor const& prediction, torch::Tensor const& target)> check = {};
  /// Where the target is; none: where it is not NaN. Has the terms' sizes.
  std::function<torch::Tensor(torch::Tensor const& target)> valid = {};
  /// Cells that are not valid may be any finite number; counts that are undefined are `valid`. Where `valid` is
  /// undefined, all cells are.
  std::function<LossTerms(torch::Tensor const& prediction, torch::Tensor const& target, torch::Tensor const& valid)>
      terms = {};
  /// For a loss of differences: the same terms, without mask and missing targets.
  std::optional<DifferenceLoss> difference = {};
};

/// `prediction [2, 3], target [2, 4]`
[[nodiscard]] std::string sizes_of(torch::Tensor const& prediction, torch::Tensor const& target);

/// Weights of whole axes. @throws `BadOption`
void check_weights(LossOptions const& options);

/// Sizes of terms against the options that name their axes, and those against each other.
/// @param channels the terms have channels as axis 1 @throws `ShapeMismatch`
void check_axes(std::string const& loss, LossOptions const& options, at::IntArrayRef sizes, bool channels);

/// In words, all that must be the same on all ranks.
[[nodiscard]] std::string described(LossOptions const& options);

/// This rank's rows' weights as [rows, 1] in f64 on the host; undefined where there are none. @param layout of rows and
/// columns @throws `ShapeMismatch` on all ranks alike
[[nodiscard]] torch::Tensor row_weights(std::string const& loss, LossOptions const& options, Layout const& layout,
                                        Domain const& domain);

/// @param rows as from `row_weights`
[[nodiscard]] AxisWeights axis_weights(LossOptions const& options, torch::Tensor const& rows);

/// All columns have equal weight, so they are summed first; the other weights then need no array of all cells.
[[nodiscard]] LossSums summed(LossTerms const& terms);

/// The loss over all ranks. @param first_row the row of the weights that is the first of the sums Collective.
/// @throws `TooFewValues` on all ranks alike
[[nodiscard]] torch::Tensor reduce_sums(std::string const& loss, LossSums const& given, AxisWeights const& weights,
                                        LossOptions const& options, bool channels, Domain const& domain,
                                        std::int64_t first_row = 0);

}  // namespace graticule::nn::detail
