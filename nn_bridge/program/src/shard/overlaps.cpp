// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "shard/local_builder.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace graticule::program::detail {

namespace {

using nn::detail::CutConvolution;
using Rows = std::vector<std::vector<std::int64_t>>;

// Padding of an axis by a node.
struct EdgeRows {
  Width rows;
  Edge edge = Edge::constant;
};

Edge edge_of(PadMode mode) {
  switch (mode) {
    case PadMode::constant: return Edge::constant;
    case PadMode::reflect: return Edge::reflect;
    case PadMode::replicate: return Edge::replicate;
    case PadMode::circular: return Edge::periodic;
  }
  return Edge::constant;
}

class Search {
 public:
  Search(Plan const& plan, Sizes const& sizes) : plan_(&plan), sizes_(&sizes) {
    for (NodePlan const& node : plan.nodes) {
      of_node_[node.node] = &node;
      for (Transfer const& transfer : node.tensors) {
        ++num_reads_[transfer.value];
        if (transfer.axis >= 0) {
          ++num_fetches_[fetch_of(transfer)];
        }
      }
    }
    for (Transfer const& transfer : plan.outputs) {
      ++num_reads_[transfer.value];
    }
  }

  [[nodiscard]] Overlaps overlaps() const {
    Overlaps result;
    for (NodePlan const& node : plan_->nodes) {
      bool const window = node.mode == RunMode::window && node.placement && node.tensors.size() >= 2;
      auto convolution = window ? this->convolution(node, shapes_of(node)) : std::nullopt;
      if (!convolution) {
        continue;
      }
      NodePlan const* const padding = join_padding(node.tensors[0], *convolution);
      if (!pays(*convolution)) {
        continue;
      }
      result.convolutions[node.node] = std::move(*convolution);
      if (padding != nullptr) {
        result.paddings.insert(padding->node);
      }
    }
    return result;
  }

 private:
  // A value, and rows of it along an axis, that a node fetches.
  using Fetch = std::tuple<ValueId, std::int64_t, Rows>;

  // Rows beyond the edges are not fetched.
  static Fetch fetch_of(Transfer const& transfer) {
    Rows rows = transfer.rows;
    for (auto& of_rank : rows) {
      std::erase(of_rank, -1);
    }
    return {transfer.value, transfer.axis, std::move(rows)};
  }

  NodeShapes shapes_of(NodePlan const& node) const {
    NodeShapes shapes(plan_->graph, plan_->graph.nodes[index(node.node)], *sizes_);
    apply_rule(shapes);
    return shapes;
  }

  // Rows of an axis that is cut into runs.
  bool is_plain(Transfer const& transfer) const {
    return transfer.axis >= 0 && transfer.from && transfer.from->axis == transfer.axis &&
           transfer.from->period == plan_->shapes[index(transfer.value)][index(transfer.axis)];
  }

  // The node that pads the value along the axis for this reader alone.
  NodePlan const* padding_of(Transfer const& transfer) const {
    auto const found = of_node_.find(plan_->graph.value(transfer.value).producer);
    if (found == of_node_.end() || num_reads_.at(transfer.value) != 1) {
      return nullptr;
    }
    NodePlan const& node = *found->second;
    bool const pads = node.mode == RunMode::table && node.placement && node.placement->axis == transfer.axis &&
                      node.tensors.size() == 1 && node.tensors[0].axis == transfer.axis && is_plain(node.tensors[0]);
    return pads ? &node : nullptr;
  }

  std::optional<EdgeRows> edge_rows(NodePlan const& padding) const {
    NodeShapes const shapes = shapes_of(padding);
    std::string_view const name = shapes.operator_name();
    if ((name != "pad" && name != "constant_pad_nd") || fill_value(shapes) != 0) {
      return std::nullopt;
    }
    auto const widths = shapes.integers("pad", 2, 0);
    std::size_t const from_last = 2 * index(shapes.ndim() - 1 - padding.placement->axis);
    if (from_last + 1 >= widths.size() || widths[from_last] < 0 || widths[from_last + 1] < 0) {
      return std::nullopt;
    }
    PadMode const mode = name == "pad" ? pad_mode(shapes.text("mode", "constant")) : PadMode::constant;
    return EdgeRows{{widths[from_last], widths[from_last + 1]}, edge_of(mode)};
  }

  std::optional<CutConvolution> convolution(NodePlan const& node, NodeShapes const& shapes) const {
    std::string_view const name = shapes.operator_name();
    bool const known =
        one_of(name, {"conv2d", "conv3d"}) || (name == "convolution" && !shapes.flag("transposed", false));
    Transfer const& source = node.tensors.at(0);
    std::size_t const spatial = shapes.in(1).size() - 2;
    std::int64_t const cut = source.axis - static_cast<std::int64_t>(spatial);  // 0: rows, 1: columns
    if (!known || (spatial != 2 && spatial != 3) || cut < 0 || !is_plain(source) ||
        source.axis != node.placement->axis || !is_real(plan_->graph.value(source.value).tensor.dtype) ||
        num_elements(shapes.in()) == 0 || num_fetches_.at(fetch_of(source)) > 1) {
      return std::nullopt;
    }
    CutConvolution result;
    result.kernel.assign(shapes.in(1).begin() + 2, shapes.in(1).end());
    result.stride = shapes.integers("stride", spatial, 1);
    result.dilation = shapes.integers("dilation", spatial, 1);
    result.padding = window_padding(shapes, spatial);
    result.groups = shapes.integer("groups", 1);
    result.axis = static_cast<int>(cut);
    result.other_extent = shapes.in()[index(source.axis) + (cut == 0 ? 1 : -1)];
    result.input_bounds = source.from->bounds;
    result.output_bounds = node.placement->bounds;
    std::int64_t const own = result.padding[spatial - 2 + index(cut)];
    result.beyond = {own, own};
    return result;
  }

  // Rows of the padding node beside those of the convolution's own padding.
  NodePlan const* join_padding(Transfer const& transfer, CutConvolution& convolution) const {
    NodePlan const* const padding = padding_of(transfer);
    auto const more = padding == nullptr ? std::nullopt : edge_rows(*padding);
    if (!more || (more->edge != Edge::constant && convolution.beyond.lower > 0)) {
      return nullptr;
    }
    convolution.beyond.lower += more->rows.lower;
    convolution.beyond.upper += more->rows.upper;
    convolution.edge = more->edge;
    convolution.input_bounds = padding->tensors[0].from->bounds;
    return padding;
  }

  // Strips beside few rows cost more than the copy of these.
  bool pays(CutConvolution const& convolution) const {
    auto const i = convolution.kernel.size() - 2 + static_cast<std::size_t>(convolution.axis);
    auto const reach = static_cast<double>((convolution.kernel[i] - 1) * convolution.dilation[i] + 1);
    auto const rows = static_cast<double>(convolution.input_bounds.back());
    return rows >= plan_->costs.overlap * reach * static_cast<double>(plan_->num_ranks) &&
           reads_other_ranks(convolution) && splits_on_all_ranks(convolution);
  }

  Plan const* plan_;
  Sizes const* sizes_;
  std::map<NodeId, NodePlan const*> of_node_;
  std::map<ValueId, int> num_reads_;
  std::map<Fetch, int> num_fetches_;
};

}  // namespace

Overlaps find_overlaps(Plan const& plan, Sizes const& sizes) { return Search(plan, sizes).overlaps(); }

}  // namespace graticule::program::detail
