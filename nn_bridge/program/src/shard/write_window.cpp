// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "graph/nodes.hpp"
#include "shard/local_builder.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

// Convolutions, pooling and resizing along a cut axis: the tensor came with the rows that this rank's results depend
// on, also those beyond the edges, so the operator runs there without padding.
namespace graticule::program::detail {

namespace {

bool is_pool(std::string_view name) { return name.find("pool") != std::string_view::npos; }

// Number of the axis among the spatial ones, of which there are `count`.
std::size_t spatial_axis(PlannedNode const& node, std::size_t count) {
  return index(node.axis) + count - node.local.size();
}

std::size_t num_spatial(PlannedNode const& node) {
  std::string_view const name = node.name();
  if (name.starts_with("conv")) {
    return node.shapes.in(1).size() - 2;
  }
  return name.find("1d") != std::string_view::npos ? 1 : name.find("3d") != std::string_view::npos ? 3 : 2;
}

std::int64_t first_row(PlannedNode const& node, LocalBuilder const& builder) {
  return node.plan.placement->bounds[index(builder.rank())];
}

ValueId write_stencil(LocalBuilder& builder, PlannedNode& node) {
  std::size_t const spatial = num_spatial(node);
  std::size_t const i = spatial_axis(node, spatial);
  auto padding = window_padding(node.shapes, spatial);
  padding[i] = 0;
  set_input(node.node, "padding", padding);
  if (node.node.target.ends_with(".padding")) {
    node.node.target.replace(node.node.target.rfind('.'), std::string::npos, ".default");
  }
  return builder.emit(node.node.target, node.node.inputs, node.local, builder.result_dtype(node));
}

// The rows of the result that the fetched rows give.
ValueId transposed_rows(LocalBuilder& builder, PlannedNode& node, std::size_t i, Shape shape) {
  std::size_t const spatial = num_spatial(node);
  auto padding = node.shapes.integers("padding", spatial, 0);
  auto output_padding = node.shapes.integers("output_padding", spatial, 0);
  padding.resize(spatial, 0);
  output_padding.resize(spatial, 0);
  padding[i] = 0;
  output_padding[i] = 0;
  set_input(node.node, "padding", padding);
  set_input(node.node, "output_padding", output_padding);
  return builder.emit(node.node.target, node.node.inputs, std::move(shape), builder.result_dtype(node));
}

// Row r of the result is row r + padding - lo * stride of what the rows from lo on give; rows that none reaches are 0.
ValueId write_transposed(LocalBuilder& builder, PlannedNode& node) {
  std::size_t const spatial = num_spatial(node);
  std::size_t const i = spatial_axis(node, spatial);
  std::int64_t const stride = node.shapes.integers("stride", spatial, 1).at(i);
  std::int64_t const dilation = node.shapes.integers("dilation", spatial, 1).at(i);
  std::int64_t const reach = (node.shapes.in(1)[i + 2] - 1) * dilation + 1;
  auto const& rows = node.plan.tensors.at(0).rows[index(builder.rank())];
  Argument const bias = node.node.input("bias") != nullptr ? *node.node.input("bias") : Argument(None{});
  std::int64_t const own = node.local[index(node.axis)];
  std::int64_t lo = 0;
  Shape made = node.local;
  made[index(node.axis)] = 0;
  if (!rows.empty()) {
    lo = first_row(node, builder) + node.shapes.integers("padding", spatial, 0).at(i) - rows.front() * stride;
    made[index(node.axis)] = (static_cast<std::int64_t>(rows.size()) - 1) * stride + reach;
  }
  std::vector<std::int64_t> wanted;
  for (std::int64_t row = lo; row < lo + own; ++row) {
    wanted.push_back(0 <= row && row < made[index(node.axis)] ? row : -1);
  }
  // Rows that none reaches have the bias as well, which then comes last.
  bool const all_reached = !rows.empty() && std::ranges::find(wanted, -1) == wanted.end();
  if (!all_reached) {
    set_input(node.node, "bias", None{});
  }
  ValueId result = -1;
  if (rows.empty()) {
    EmptyTask empty{{made}, {builder.result_dtype(node)}};
    result = builder.emit("graticule.empty", node.node.inputs, made, builder.result_dtype(node), std::move(empty));
  } else {
    result = transposed_rows(builder, node, i, made);
  }
  result = builder.arranged(result, node.axis, wanted, 0);
  auto const* const tensor = std::get_if<TensorRef>(&bias);
  if (tensor == nullptr || all_reached) {
    return result;
  }
  Shape channels(node.local.size(), 1);
  channels[1] = builder.shape(tensor->value).at(0);
  ValueId const shaped = builder.reshaped(tensor->value, channels);
  return builder.apply("aten.add.Tensor", result, {tensor_input("other", shaped)}, node.local);
}

// --- Operators whose windows differ from row to row: the others axes by the operator, this one by weights. ---

// weights[r, j]: of row j of the whole tensor in row r of the whole result.
torch::Tensor resizing_weights(PlannedNode const& node, std::int64_t from, std::int64_t to, std::optional<double> scale,
                               torch::ScalarType type) {
  std::string_view const name = node.name();
  bool const corners = node.shapes.flag("align_corners", false);
  auto const eye = torch::eye(from, torch::TensorOptions().dtype(type)).unsqueeze(0);
  std::array<std::int64_t, 1> const size{to};
  at::IntArrayRef const sizes(size);
  torch::Tensor result;
  if (name.find("bicubic") != std::string_view::npos) {
    result = at::upsample_bicubic2d(eye.unsqueeze(-1), {to, 1}, corners, scale, std::nullopt).squeeze(-1);
  } else if (name.find("linear") != std::string_view::npos) {
    result = at::upsample_linear1d(eye, sizes, corners, scale);
  } else if (name.find("exact") != std::string_view::npos) {
    result = at::_upsample_nearest_exact1d(eye, sizes, scale);
  } else {
    result = at::upsample_nearest1d(eye, sizes, scale);
  }
  return result.squeeze(0).transpose(0, 1).contiguous();
}

torch::Tensor adaptive_weights(std::int64_t from, std::int64_t to, torch::ScalarType type) {
  torch::Tensor weights = torch::zeros({to, from}, torch::kDouble);
  for (std::int64_t row = 0; row < to; ++row) {
    std::int64_t const lo = row * from / to;
    std::int64_t const hi = ((row + 1) * from + to - 1) / to;
    weights.select(0, row).slice(0, lo, hi).fill_(1.0 / static_cast<double>(hi - lo));
  }
  return weights.to(type);
}

// The scale that the node gives for the axis, if any, which is then taken out of it.
std::optional<double> take_scale(PlannedNode& node, std::size_t i) {
  static constexpr std::array<char const*, 3> names{"scales_d", "scales_h", "scales_w"};
  std::size_t const spatial = num_spatial(node);
  for (NamedArgument& input : node.node.inputs) {
    if (auto* factors = std::get_if<std::vector<double>>(&input.value); factors != nullptr && i < factors->size()) {
      return std::exchange((*factors)[i], 1.0);
    }
    bool const own = spatial == 1 ? input.name == "scales" : input.name == names[3 - spatial + i];
    if (auto* factor = std::get_if<double>(&input.value); factor != nullptr && own) {
      double const scale = *factor;
      input.value = None{};
      return scale;
    }
  }
  return std::nullopt;
}

// sum over k of x[index_k] * weight_k, for up to k rows of the tensor per row of the result.
ValueId by_taps(LocalBuilder& builder, PlannedNode const& node, ValueId x, torch::Tensor const& weights,
                std::int64_t taps) {
  auto const [sorted, order] = weights.abs().sort(/*dim=*/1, /*descending=*/true);
  Shape shape(node.local.size(), 1);
  shape[index(node.axis)] = weights.size(0);
  ValueId result = -1;
  for (std::int64_t k = 0; k < taps; ++k) {
    torch::Tensor const rows = order.select(1, k).contiguous();
    torch::Tensor const factor = weights.gather(1, rows.unsqueeze(1)).reshape(shape);
    ValueId const taken = builder.apply(
        "aten.index_select.default", x,
        {input_of("dim", node.axis), tensor_input("index", builder.constant(rows, Dtype::i64))}, node.local);
    ValueId const scaled =
        builder.apply("aten.mul.Tensor", taken, {tensor_input("other", builder.constant(factor, builder.dtype(x)))});
    result = result < 0 ? scaled : builder.apply("aten.add.Tensor", result, {tensor_input("other", scaled)});
  }
  return result;
}

ValueId by_product(LocalBuilder& builder, PlannedNode const& node, ValueId x, torch::Tensor const& weights) {
  std::string letters;
  for (std::size_t axis = 0; axis < node.local.size(); ++axis) {
    letters += static_cast<char>('a' + axis);
  }
  char const row = letters[index(node.axis)];
  std::string result = letters;
  result[index(node.axis)] = 'z';
  std::string const equation = std::string("z") + row + "," + letters + "->" + result;
  return builder.emit("aten.einsum.default",
                      {input_of("equation", equation),
                       input_of("tensors", Tensors{{builder.constant(weights, builder.dtype(x))}, {x}})},
                      node.local, builder.dtype(x));
}

// The operator along the other axes; along this one as many rows go out as come in, which changes nothing.
ValueId along_other_axes(LocalBuilder& builder, PlannedNode& node, std::size_t i, std::int64_t rows) {
  for (NamedArgument& input : node.node.inputs) {
    if (input.name != "output_size" || std::holds_alternative<None>(input.value)) {
      continue;
    }
    auto sizes = node.shapes.integers("output_size", num_spatial(node), 1);
    sizes.at(i) = rows;
    input.value = sizes;
  }
  Shape shape = node.local;
  shape[index(node.axis)] = rows;
  return builder.emit(node.node.target, node.node.inputs, shape, builder.result_dtype(node));
}

ValueId write_weighted(LocalBuilder& builder, PlannedNode& node) {
  std::size_t const i = spatial_axis(node, num_spatial(node));
  auto const& rows = node.plan.tensors.at(0).rows[index(builder.rank())];
  std::int64_t const from = node.shapes.in()[index(node.axis)];
  std::int64_t const to = node.shapes.out()[index(node.axis)];
  auto const type = builder.conversion()(builder.result_dtype(node));
  auto const scale = take_scale(node, i);
  torch::Tensor const whole =
      is_pool(node.name()) ? adaptive_weights(from, to, type) : resizing_weights(node, from, to, scale, type);
  std::int64_t const first = first_row(node, builder);
  torch::Tensor const own = whole.slice(0, first, first + node.local[index(node.axis)]);
  torch::Tensor const weights =
      own.slice(1, rows.front(), rows.front() + static_cast<std::int64_t>(rows.size())).contiguous();
  if (own.count_nonzero().item<std::int64_t>() != weights.count_nonzero().item<std::int64_t>()) {
    throw Error("FailedNode", node.node.describe() + ": its windows are not those of the layout pass");
  }
  ValueId const x = along_other_axes(builder, node, i, static_cast<std::int64_t>(rows.size()));
  std::int64_t const taps = weights.ne(0).sum(at::IntArrayRef{1}).max().item<std::int64_t>();
  std::int64_t const few = 4;
  return taps <= few ? by_taps(builder, node, x, weights, std::max<std::int64_t>(taps, 1))
                     : by_product(builder, node, x, weights);
}

}  // namespace

std::vector<std::int64_t> window_padding(NodeShapes const& shapes, std::size_t spatial) {
  if (shapes.text("padding", "") != "same") {
    auto padding = shapes.integers("padding", spatial, 0);
    padding.resize(std::max(spatial, padding.size()), padding.empty() ? 0 : padding.front());
    return padding;
  }
  auto const dilation = shapes.integers("dilation", spatial, 1);
  std::vector<std::int64_t> padding;
  for (std::size_t i = 0; i < spatial; ++i) {
    padding.push_back((shapes.in(1)[i + 2] - 1) * dilation[i] / 2);  // kernels that are not odd are not cut
  }
  return padding;
}

double fill_value(NodeShapes const& shapes) {
  std::string_view const name = shapes.operator_name();
  if (name.starts_with("max_pool")) {
    return -std::numeric_limits<double>::infinity();
  }
  return one_of(name, {"pad", "constant_pad_nd"}) ? real_input(shapes.node(), "value", 0) : 0;
}

ValueId write_window(LocalBuilder& builder, PlannedNode& node) {
  std::string_view const name = node.name();
  if (name.starts_with("conv_transpose") || node.shapes.flag("transposed", false)) {
    return write_transposed(builder, node);
  }
  bool const weighted =
      name.find("upsample") != std::string_view::npos || name.find("adaptive") != std::string_view::npos;
  return weighted ? write_weighted(builder, node) : write_stencil(builder, node);
}

}  // namespace graticule::program::detail
