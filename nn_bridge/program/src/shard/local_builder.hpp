// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "layout/node_shapes.hpp"
#include "layout/passes.hpp"
#include "local_graph.hpp"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace graticule::program::detail {

using Inputs = std::vector<NamedArgument>;

/// A tensor of a node that is written.
[[nodiscard]] NamedArgument tensor_input(std::string name, ValueId value);
/// Any other argument.
[[nodiscard]] NamedArgument input_of(std::string name, Argument value);
/// Replaces the argument, or adds it.
void set_input(Node& node, std::string const& name, Argument value);

/// A node of the plan on its way into the local graph.
struct PlannedNode {
  NodePlan const& plan;
  NodeShapes const& shapes;
  Node node;                     ///< with numbers for symbols and this rank's tensors
  std::vector<ValueId> tensors;  ///< of this rank, in the order of the rule
  Shape local;                   ///< of the first result
  std::int64_t axis = -1;        ///< of the result's cut; -1: none

  [[nodiscard]] std::string_view name() const { return shapes.operator_name(); }
};

/// Writes the nodes of a local graph.
class LocalBuilder {
 public:
  LocalBuilder(Plan const& plan, Sizes const& sizes, Conversion const& conversion, int rank);

  LocalGraph build();

  /// A new node of one result.
  ValueId emit(std::string const& target, Inputs inputs, Shape shape, Dtype dtype, Task task = PlainTask{});
  /// A new node on a tensor, which is its first argument; its result has that type and, if no other is said, that
  /// shape.
  ValueId apply(std::string const& target, ValueId self, Inputs more = {}, std::optional<Shape> shape = std::nullopt);
  ValueId reshaped(ValueId self, Shape const& shape);
  ValueId converted(ValueId self, Dtype dtype);
  /// Random numbers for the node, in the shape and type of a tensor. @param whole shape on all ranks together
  ValueId drawn(PlannedNode const& node, ValueId self, Shape whole, double p, Draw draw = Draw::mask);
  /// A tensor that is made with the graph.
  ValueId constant(torch::Tensor const& tensor, Dtype dtype);
  /// Rows of the tensor along the axis in that order; -1: the fill value.
  ValueId arranged(ValueId source, std::int64_t axis, std::vector<std::int64_t> const& rows, double fill);
  /// The sum over ranks.
  ValueId summed(ValueId source);
  /// The tensors of all ranks, which have this one's shape, along a new first axis.
  ValueId of_all_ranks(ValueId source);
  /// A task that moves a tensor, or none where it has no elements.
  ValueId emit_move(ValueId source, Shape const& target, MoveTask task);
  /// The value is this result of the node.
  void finish(PlannedNode const& node, ValueId value, std::size_t result = 0);

  [[nodiscard]] Shape const& shape(ValueId id) const { return result_.shapes[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Dtype dtype(ValueId id) const { return result_.graph.value(id).tensor.dtype; }
  [[nodiscard]] Dtype result_dtype(PlannedNode const& node) const {
    return plan_->graph.value(node.shapes.rule.results.at(0)).tensor.dtype;
  }
  [[nodiscard]] Conversion const& conversion() const { return *conversion_; }
  [[nodiscard]] int rank() const { return rank_; }

 private:
  using Rows = std::vector<std::vector<std::int64_t>>;

  void place_inputs();
  void step(NodePlan const& plan);
  void write(PlannedNode& node);
  void write_factory(PlannedNode& node);
  void write_plain(PlannedNode& node);
  void write_padding(PlannedNode& node);
  void write_convolution(PlannedNode& node);
  void end_outputs();
  ValueId new_value(Shape shape, Dtype dtype);
  void add(Node node, Task task);
  /// Appends the node with results of its own.
  void append(PlannedNode const& node, Task task);
  void append_empty(PlannedNode& node);
  [[nodiscard]] Argument local_argument(Argument const& argument, std::vector<ValueId> const& tensors,
                                        std::size_t& next) const;
  [[nodiscard]] std::int64_t number_of(ValueId symbol) const;
  [[nodiscard]] Node localized(Node const& node, std::vector<ValueId> const& tensors) const;

  /// The rows of the tensor that the node reads: all that it needs, or this rank's own if a convolution fetches the
  /// rest.
  ValueId read(NodePlan const& plan, std::size_t tensor, double fill);
  ValueId fetched(Transfer const& transfer, double fill);
  ValueId placed(ValueId value, Placement const& from, Placement const& to);
  ValueId moved(ValueId value, Cut const& from, std::int64_t axis, Rows const& rows);
  void check_overwriting(PlannedNode const& node);
  void forget_parts(ValueId overwritten);
  void find_reads();
  [[nodiscard]] bool is_read_later(ValueId shared, NodeId node) const;

  Plan const* plan_;
  Sizes const* sizes_;
  Conversion const* conversion_;
  int rank_;
  LocalGraph result_;
  Overlaps overlaps_;
  std::map<ValueId, ValueId> padded_;  ///< padded along all other axes, for a convolution that fetches its rows
  Node const* current_ = nullptr;
  int part_ = -1;  ///< of the node that is written
  std::map<std::pair<ValueId, Placement>, ValueId> copies_;
  std::map<std::tuple<ValueId, std::int64_t, Rows, double>, ValueId> pulled_;
  std::map<std::tuple<ValueId, Cut, std::int64_t, Rows>, ValueId> moves_;
  std::optional<SharedMemory> memory_;                         ///< of the plan's graph, once it is wanted
  std::vector<std::vector<std::pair<NodeId, NodeId>>> reads_;  ///< per root of `memory_`: producer, last read so far
};

/// Roll, flip, slice, padding, concatenation and quarter turns on rows that are in order already.
[[nodiscard]] ValueId write_table(LocalBuilder& builder, PlannedNode& node);
/// Convolutions, pooling and resizing on the rows that this rank's results depend on.
[[nodiscard]] ValueId write_window(LocalBuilder& builder, PlannedNode& node);
/// Sums and means over the cut axis.
[[nodiscard]] ValueId write_sum(LocalBuilder& builder, PlannedNode& node);
/// Attention that drops weights with this probability in training.
[[nodiscard]] ValueId write_attention(LocalBuilder& builder, PlannedNode& node, double dropped);
/// Dropout with its mask as second result.
void write_native_dropout(LocalBuilder& builder, PlannedNode& node, double dropped);
/// Whether the operator ("rand") draws numbers that do not vanish in evaluation.
[[nodiscard]] bool is_random(std::string_view name);
/// Numbers that depend on their place in the whole tensor.
void write_random(LocalBuilder& builder, PlannedNode& node);
/// The normalisation of a node over the ranks. @throws Error `RefusedProgram` for one that has no such form
[[nodiscard]] NormTask norm_task(PlannedNode const& node, LocalBuilder const& builder);
/// Padding of the node's spatial axes, with "same" as numbers.
[[nodiscard]] std::vector<std::int64_t> window_padding(NodeShapes const& shapes, std::size_t spatial);
/// What rows beyond the edges hold.
[[nodiscard]] double fill_value(NodeShapes const& shapes);

}  // namespace graticule::program::detail
