// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/operators.hpp>

#include "cut_moves.hpp"
#include "rules.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::program::detail {

/// A node with the numbers behind its arguments, for the rules of operators.
class NodeShapes {
 public:
  NodeShapes(Graph const& graph, Node const& node, Sizes const& sizes);

  NodeRule rule;  ///< with tensors, results and shapes filled in

  [[nodiscard]] Node const& node() const { return *node_; }
  /// "roll" of "aten.roll.default", without the mark of operators in place.
  [[nodiscard]] std::string_view operator_name() const { return name_; }
  [[nodiscard]] Shape const& in(std::size_t tensor = 0) const { return rule.shapes.at(tensor); }
  [[nodiscard]] Shape const& out() const { return rule.result_shapes.at(0); }
  /// Whether all tensors are real numbers, no integers.
  [[nodiscard]] bool real() const;
  [[nodiscard]] std::int64_t ndim() const { return static_cast<std::int64_t>(out().size()); }

  [[nodiscard]] std::int64_t integer(std::string_view argument, std::int64_t otherwise) const;
  [[nodiscard]] bool flag(std::string_view argument, bool otherwise) const;
  [[nodiscard]] std::string text(std::string_view argument, std::string otherwise) const;
  [[nodiscard]] bool has(std::string_view argument) const;
  /// A list of integers. A single one is repeated `count` times; a missing list is `count` times `otherwise`.
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view argument, std::size_t count,
                                                   std::int64_t otherwise) const;
  /// Axes named by an argument, from 0 on.
  [[nodiscard]] std::vector<std::int64_t> axes(std::string_view argument, std::int64_t ndim,
                                               std::vector<std::int64_t> otherwise = {}) const;
  /// One axis named by an argument.
  [[nodiscard]] std::int64_t axis(std::string_view argument, std::int64_t otherwise, std::int64_t ndim) const;
  /// Place of a tensor argument among `rule.tensors`; nothing where it is missing.
  [[nodiscard]] std::optional<std::size_t> tensor(std::string_view argument) const;

  /// The rule of an axis of the result.
  [[nodiscard]] AxisRule& at(std::int64_t axis) { return rule.axes.at(index(axis)); }
  /// With this axis of the result, these axes of the tensors are cut alike; -1: all of the tensor is needed.
  void cut_alike(std::int64_t axis, std::vector<std::int64_t> axes) {
    at(axis) = {RunMode::same, std::move(axes), {}, {}};
  }
  /// This axis of each tensor.
  [[nodiscard]] std::vector<std::int64_t> of_all(std::int64_t axis) const;
  /// This axis of the first tensor; all of the others.
  [[nodiscard]] std::vector<std::int64_t> of_first(std::int64_t axis) const;

  [[noreturn]] void refuse(std::string const& why) const;

 private:
  [[nodiscard]] std::optional<std::int64_t> number(Argument const& argument) const;

  Graph const* graph_;
  Node const* node_;
  Sizes const* sizes_;
  std::string_view name_;
  std::vector<std::pair<std::string_view, std::size_t>> places_;
};

/// Fills `shapes.rule` for its operator.
void apply_rule(NodeShapes& shapes);
// Rules of products (product_rule.cpp).
void addmm_rule(NodeShapes& shapes);
void attention_rule(NodeShapes& shapes);
void baddbmm_rule(NodeShapes& shapes);
void einsum_rule(NodeShapes& shapes);
void linear_rule(NodeShapes& shapes);
void matmul_rule(NodeShapes& shapes);
void tensordot_rule(NodeShapes& shapes);
// Rules of operators that read windows of rows (window_rule.cpp).
void convolution_rule(NodeShapes& shapes);
void pooling_rule(NodeShapes& shapes);
void resizing_rule(NodeShapes& shapes);
// Rules of operators that take rows from other places (table_rule.cpp).
void cat_rule(NodeShapes& shapes);
void flip_rule(NodeShapes& shapes);
void pad_rule(NodeShapes& shapes);
void roll_rule(NodeShapes& shapes);
void rot90_rule(NodeShapes& shapes);
void scatter_rule(NodeShapes& shapes);
void select_rule(NodeShapes& shapes);
void slice_rule(NodeShapes& shapes);
void split_rule(NodeShapes& shapes);
void stack_rule(NodeShapes& shapes);

/// The tensors' axes that stand below an axis of a result of the same number of axes or more, from the right; -1 for a
/// tensor that is repeated along it. @param gone an axis of the tensors that the result lacks
[[nodiscard]] std::vector<std::int64_t> broadcast_axes(NodeShapes const& shapes, std::int64_t axis,
                                                       std::optional<std::int64_t> gone = std::nullopt);

/// The axes of the first tensor that a reduction names, or all.
[[nodiscard]] std::vector<std::int64_t> reduced_axes(NodeShapes const& shapes);

/// The axis of vectors of `cross` where none is named: the first one of three cells of the first tensor.
[[nodiscard]] std::int64_t unnamed_axis_of_cross(NodeShapes const& shapes);

/// What is known about one operator.
struct OperatorEntry {
  OperatorClass kind;
  void (*rule)(NodeShapes&);  ///< where the axes of its result may be cut; null: every rank runs it on the whole
};

/// The entry of a name as `operator_name` gives it, with the package in front where that is not PyTorch; null where
/// there is none. The table of all operators stands in `rules.cpp`.
[[nodiscard]] OperatorEntry const* find_entry(std::string_view name);

/// The entry of an operator by the target of its node ("aten.relu_.default"); null where there is none.
[[nodiscard]] OperatorEntry const* find_operator(std::string_view target);

}  // namespace graticule::program::detail
