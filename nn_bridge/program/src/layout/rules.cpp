// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/operators.hpp>

#include "node_shapes.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <variant>

namespace graticule::program {

namespace detail {

namespace {

using Rule = void (*)(NodeShapes&);
using Table = std::unordered_map<std::string_view, Rule>;

bool any_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

AxisRule same(std::vector<std::int64_t> axes) { return {RunMode::same, std::move(axes), {}, {}}; }

// Each cell by itself, smaller tensors repeated.
void elementwise(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    shapes.rule.axes[static_cast<std::size_t>(axis)] = same(broadcast_axes(shapes, axis));
  }
}

// The axes stand at the same places, but one axis is new, gone or of another kind.
void keep_leading(NodeShapes& shapes) {
  for (std::size_t axis = 0; axis < std::min(shapes.in().size(), shapes.out().size()); ++axis) {
    if (shapes.in()[axis] == shapes.out()[axis]) {
      shapes.rule.axes[axis] =
          same(std::vector<std::int64_t>(shapes.rule.tensors.size(), static_cast<std::int64_t>(axis)));
    }
  }
}

// Of the other tensors only the shape counts.
void drop_tensors(NodeShapes& shapes, std::size_t kept) {
  shapes.rule.tensors.resize(std::min(kept, shapes.rule.tensors.size()));
  shapes.rule.shapes.resize(shapes.rule.tensors.size());
}

void expand(NodeShapes& shapes) {
  drop_tensors(shapes, 1);
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    shapes.rule.axes[static_cast<std::size_t>(axis)] = same(broadcast_axes(shapes, axis));
  }
}

// Of the other tensor only the type counts.
void drop_other(NodeShapes& shapes) {
  drop_tensors(shapes, 1);
  elementwise(shapes);
}

// One slope per channel, axis 1, or one for all.
void prelu(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    bool const per_channel = axis == 1 && num_elements(shapes.in(1)) > 1;
    shapes.rule.axes[static_cast<std::size_t>(axis)] = same({axis, per_channel ? 0 : -1});
  }
}

// Copies of the whole, one after the other: axes with one copy stay.
void repeat(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    std::int64_t const own = axis - shapes.ndim() + static_cast<std::int64_t>(shapes.in().size());
    auto const a = static_cast<std::size_t>(axis);
    if (own >= 0 && shapes.in()[static_cast<std::size_t>(own)] == shapes.out()[a]) {
      shapes.rule.axes[a] = same({own});
    }
  }
}

// Values at places of another tensor along one axis; the other axes have to be alike.
void gather(NodeShapes& shapes) {
  if (!shapes.has("dim") || shapes.ndim() == 0) {
    return;
  }
  std::int64_t const along = shapes.axis("dim", 0, shapes.ndim());
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    auto const a = static_cast<std::size_t>(axis);
    bool const alike = std::ranges::all_of(shapes.rule.shapes, [&](Shape const& shape) {
      return shape.size() == shapes.out().size() && (axis == along || shape[a] == shapes.out()[a]);
    });
    if (axis == along && alike && !shapes.operator_name().starts_with("scatter")) {
      shapes.rule.axes[a] = same({-1, axis});
    } else if (alike) {
      shapes.rule.axes[a] = axis == along ? AxisRule{} : same(std::vector(shapes.rule.tensors.size(), axis));
    }
  }
}

// Cells of the whole tensor at the places that the grid [batch, rows, columns, 2] names.
void grid_sample(NodeShapes& shapes) {
  shapes.rule.axes.at(0) = same({0, 0});
  shapes.rule.axes.at(1) = same({1, -1});
  for (std::int64_t axis = 2; axis < shapes.ndim(); ++axis) {
    shapes.rule.axes[static_cast<std::size_t>(axis)] = same({-1, axis - 1});
  }
  shapes.rule.operations = 16;
}

// The first axes, which are no rows or columns, can be cut.
void keep_planes(NodeShapes& shapes) {
  std::size_t const spatial = shapes.operator_name().find("3d") != std::string_view::npos ? 3 : 2;
  for (std::size_t axis = 0; axis + spatial < shapes.out().size(); ++axis) {
    shapes.rule.axes[axis] =
        same(std::vector<std::int64_t>(shapes.rule.tensors.size(), static_cast<std::int64_t>(axis)));
  }
}

void view(NodeShapes& shapes) {
  drop_tensors(shapes, 1);
  if (shapes.has("dtype")) {  // the same bits as another type
    keep_leading(shapes);
    return;
  }
  shapes.rule.view = true;
  std::ranges::fill(shapes.rule.axes, same({}));
}

// Named axes at their places, the others in order between them.
std::vector<std::int64_t> moved_order(NodeShapes const& shapes, std::vector<std::int64_t> const& all) {
  auto const from = shapes.axes("source", shapes.ndim()).value_or(std::vector<std::int64_t>{});
  auto const to = shapes.axes("destination", shapes.ndim()).value_or(std::vector<std::int64_t>{});
  std::vector<std::int64_t> order(all.size(), -1);
  for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
    order[static_cast<std::size_t>(to[i])] = from[i];
  }
  auto next = order.begin();
  for (std::int64_t const axis : all) {
    if (std::ranges::find(from, axis) == from.end()) {
      next = std::find(next, order.end(), -1);
      if (next == order.end()) {
        shapes.refuse("an axis is named twice; name each once");
      }
      *next = axis;
    }
  }
  if (std::ranges::find(order, -1) != order.end()) {
    shapes.refuse("an axis is named twice; name each once");
  }
  return order;
}

void permute(NodeShapes& shapes) {
  std::int64_t const ndim = shapes.ndim();
  std::vector<std::int64_t> order(static_cast<std::size_t>(ndim));
  std::iota(order.begin(), order.end(), 0);
  std::string_view const name = shapes.operator_name();
  auto const exchange = [&](std::int64_t a, std::int64_t b) {
    std::swap(order.at(static_cast<std::size_t>(a)), order.at(static_cast<std::size_t>(b)));
  };
  if (name == "permute") {
    order = shapes.axes("dims", ndim).value_or(order);
  } else if (any_of(name, {"movedim", "moveaxis"})) {
    order = moved_order(shapes, order);
  } else if (any_of(name, {"transpose", "swapaxes", "swapdims"})) {
    exchange(shapes.axis(name == "swapaxes" ? "axis0" : "dim0", 0, ndim),
             shapes.axis(name == "swapaxes" ? "axis1" : "dim1", 0, ndim));
  } else if (ndim >= 2) {
    exchange(ndim - 2, ndim - 1);
  }
  for (std::size_t axis = 0; axis < order.size(); ++axis) {
    shapes.rule.axes[axis] = same({order[axis]});
  }
}

// Norms of norms; the number of values that are not zero is none.
bool adds_up(NodeShapes const& shapes) {
  Argument const* const order = shapes.node().input("ord");
  if (order == nullptr) {
    return true;
  }
  auto const* const whole = std::get_if<std::int64_t>(order);
  auto const* const real = std::get_if<double>(order);
  return (whole != nullptr && *whole > 0) || (real != nullptr && *real > 0);
}

// Sums, means and extremes over axes, which the result lacks or keeps with extent 1.
void reduction(NodeShapes& shapes) {
  auto const ndim = static_cast<std::int64_t>(shapes.in().size());
  std::vector<std::int64_t> all(static_cast<std::size_t>(ndim));
  std::iota(all.begin(), all.end(), 0);
  auto over = shapes.axes("dim", ndim).value_or(all);
  over = over.empty() ? all : over;
  if (shapes.rule.tensors.size() != 1) {
    elementwise(shapes);  // the larger of two tensors
    return;
  }
  std::string_view const name = shapes.operator_name();
  bool const in_parts =
      any_of(name, {"sum", "mean"}) || (name == "linalg_vector_norm" && adds_up(shapes)) ||
      (shapes.real() && any_of(name, {"var", "std", "var_mean", "std_mean", "amax", "amin", "logsumexp"})) ||
      (shapes.real() && shapes.rule.results.size() == 1 && any_of(name, {"max", "min"}));
  std::size_t result = 0;
  bool const kept = shapes.out().size() == shapes.in().size() && shapes.flag("keepdim", false);
  for (std::int64_t axis = 0; axis < ndim; ++axis) {
    if (std::ranges::find(over, axis) == over.end()) {
      shapes.rule.axes.at(result++) = same({axis});
      continue;
    }
    // Of these a rank's part of the axis gives a part of the result; of others all ranks need all of it.
    if (in_parts) {
      shapes.rule.contracted.push_back({axis});
    }
    result += kept ? 1 : 0;
  }
  shapes.rule.statistics = 2 * num_elements(shapes.out());
}

// The first tensor by its axes, all others (weights, running statistics) by the channels, which are not cut.
void norm_over(NodeShapes& shapes, std::int64_t lo, std::int64_t hi, std::int64_t statistics) {
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    std::vector<std::int64_t> axes(shapes.rule.tensors.size(), -1);
    axes[0] = axis;
    RunMode const mode = lo <= axis && axis < hi ? RunMode::statistic : RunMode::same;
    shapes.rule.axes[static_cast<std::size_t>(axis)] = {mode, std::move(axes), {}, {}};
  }
  shapes.rule.statistics = 2 * statistics;
}

void layer_norm(NodeShapes& shapes) {
  auto const axes = static_cast<std::int64_t>(shapes.integers("normalized_shape", 1, 1).size());
  std::int64_t const first = shapes.ndim() - axes;
  Shape const rows(shapes.out().begin(), shapes.out().begin() + first);
  norm_over(shapes, first, shapes.ndim(), num_elements(rows));
  if (shapes.operator_name() != "layer_norm") {
    std::fill(shapes.rule.axes.begin() + first, shapes.rule.axes.end(), AxisRule{});
    return;
  }
  for (std::int64_t axis = first; axis < shapes.ndim(); ++axis) {
    // Weights have the normalised axes themselves.
    auto& own = shapes.rule.axes[static_cast<std::size_t>(axis)].axes;
    std::fill(own.begin() + 1, own.end(), axis - first);
  }
}

// Statistics per group or channel over all axes behind the channels.
void group_norm(NodeShapes& shapes) {
  norm_over(shapes, 2, shapes.ndim(), shapes.in()[0] * shapes.integer("num_groups", shapes.in().at(1)));
  shapes.rule.axes.at(1) = {};
  bool const has_running = shapes.operator_name() == "instance_norm" && shapes.has("running_mean");
  if (has_running && !shapes.flag("use_input_stats", true)) {
    norm_over(shapes, 0, 0, 0);
    shapes.rule.axes.at(1) = {};
  } else if (has_running) {
    std::ranges::fill(shapes.rule.axes, AxisRule{});  // it overwrites running statistics
  } else if (shapes.operator_name() == "native_group_norm") {
    std::fill(shapes.rule.axes.begin() + 2, shapes.rule.axes.end(), AxisRule{});
  }
}

void batch_norm(NodeShapes& shapes) {
  bool const trained = shapes.flag("training", shapes.operator_name().find("no_training") == std::string_view::npos);
  norm_over(shapes, 0, trained ? shapes.ndim() : 0, shapes.in().at(1));
  shapes.rule.axes.at(1) = {};
  bool const functional = shapes.operator_name().find("functional") != std::string_view::npos;
  if (trained && !functional && shapes.has("running_mean")) {
    std::ranges::fill(shapes.rule.axes, AxisRule{});  // it overwrites running statistics
  }
}

// Along one axis every rank needs all of it.
void along_axis(NodeShapes& shapes) {
  keep_leading(shapes);
  if (shapes.ndim() > 0) {
    shapes.rule.axes.at(static_cast<std::size_t>(shapes.axis("dim", -1, shapes.ndim()))) = {};
  }
}

void fourier(NodeShapes& shapes) {
  std::string_view const name = shapes.operator_name();
  std::int64_t const ndim = shapes.ndim();
  std::vector<std::int64_t> axes{ndim - 1};
  if (name.ends_with("2")) {
    axes = {ndim - 2, ndim - 1};
  } else if (name.ends_with("n")) {
    axes.resize(static_cast<std::size_t>(ndim));
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = shapes.axes("dim", ndim).value_or(axes);
  keep_leading(shapes);
  for (std::int64_t const axis : axes) {
    shapes.rule.axes.at(static_cast<std::size_t>(axis)) = {};
  }
  shapes.rule.operations = 16;
}

// Any cut does: every rank makes its own part.
void made_anywhere(NodeShapes& shapes) {
  drop_tensors(shapes, 0);
  std::ranges::fill(shapes.rule.axes, same({}));
}

// Numbers by their place in the whole: of another tensor the shape alone counts, or its values as probabilities.
void drawn(NodeShapes& shapes) {
  bool const probabilities = shapes.operator_name() == "bernoulli" && !shapes.has("p");
  probabilities || in_place(shapes.node().target) ? elementwise(shapes) : made_anywhere(shapes);
}

// The only axis that is indexed; nothing where there are more.
std::optional<std::int64_t> indexed_axis(NodeShapes const& shapes) {
  auto const* const indices = shapes.node().input("indices");
  auto const* const some = indices == nullptr ? nullptr : std::get_if<OptionalTensors>(indices);
  auto const* const all = indices == nullptr ? nullptr : std::get_if<Tensors>(indices);
  if (all != nullptr && all->size() == 1) {
    return 0;
  }
  if (some == nullptr || std::ranges::count_if(*some, [](auto const& one) { return one.has_value(); }) != 1) {
    return std::nullopt;
  }
  return std::ranges::find_if(*some, [](auto const& one) { return one.has_value(); }) - some->begin();
}

// Rows by a table of indices in one axis: the result has the table's axes in its place. Cut there, each rank has a part
// of the table and all rows; cut along another axis, the whole table.
void lookup(NodeShapes& shapes) {
  auto const axis = shapes.operator_name() == "index_select" ? shapes.axis("dim", 0, shapes.ndim())
                    : shapes.operator_name() == "embedding"  ? std::optional<std::int64_t>(0)
                                                             : indexed_axis(shapes);
  if (!axis || shapes.rule.tensors.size() != 2) {
    return;
  }
  bool const kept = shapes.operator_name() == "index_select";  // the axis, by an index without axes as well
  auto const inner = std::max<std::int64_t>(static_cast<std::int64_t>(shapes.in(1).size()), kept ? 1 : 0);
  for (std::int64_t a = 0; a < shapes.ndim(); ++a) {
    bool const in_table = *axis <= a && a < *axis + inner;
    std::int64_t const of_rows = a < *axis ? a : a - inner + 1;
    std::int64_t const of_table = shapes.in(1).empty() ? -1 : a - *axis;
    shapes.rule.axes[static_cast<std::size_t>(a)] = in_table ? same({-1, of_table}) : same({of_rows, -1});
  }
}

// Values at places of one axis, as a slice assignment makes: other axes are cut alike.
void put(NodeShapes& shapes) {
  auto const axis = indexed_axis(shapes);
  if (!axis || shapes.rule.tensors.size() != 3 || shapes.in(1).size() != 1 ||
      shapes.in(2).size() != shapes.in().size()) {
    return;
  }
  for (std::int64_t a = 0; a < shapes.ndim(); ++a) {
    auto const at = static_cast<std::size_t>(a);
    if (a != *axis) {
      shapes.rule.axes[at] = same({a, -1, shapes.in(2)[at] == shapes.out()[at] ? a : -1});
    }
  }
}

// Of torch-harmonics: the sphere is whole, samples and channels [batch, channels, ...] can be cut.
void over_the_sphere(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < std::min<std::int64_t>(2, shapes.ndim()); ++axis) {
    std::vector<std::int64_t> axes(shapes.rule.tensors.size(), -1);
    axes.at(0) = axis;
    shapes.rule.axes[static_cast<std::size_t>(axis)] = same(std::move(axes));
  }
  shapes.rule.operations = 32;
}

// Keys, values and queries [batch, rows, columns, channels]: samples can be cut.
void attention_on_the_sphere(NodeShapes& shapes) {
  std::vector<std::int64_t> axes(shapes.rule.tensors.size(), -1);
  std::fill_n(axes.begin(), std::min<std::size_t>(3, axes.size()), 0);
  shapes.rule.axes.at(0) = same(std::move(axes));
  shapes.rule.operations = 64;
}

// Axes of [batch, channels, rows, columns] in another order.
void reordered(NodeShapes& shapes) {
  std::vector<std::int64_t> order{0, 2, 3, 1};
  if (shapes.operator_name() == "permute_to_nchw") {
    order = {0, 3, 1, 2};
  }
  for (std::size_t axis = 0; shapes.ndim() == 4 && axis < order.size(); ++axis) {
    shapes.rule.axes[axis] = same({order[axis]});
  }
}

void add(Table& table, Rule rule, std::initializer_list<std::string_view> names) {
  for (std::string_view const name : names) {
    table.emplace(name, rule);
  }
}

void add_views(Table& table) {
  add(table, keep_leading, {"view_as_real", "view_as_complex"});
  add(table, view,
      {"view", "view_as", "_unsafe_view", "reshape", "reshape_as", "flatten", "unflatten", "squeeze", "unsqueeze",
       "ravel"});
  add(table, permute,
      {"permute", "transpose", "t", "swapaxes", "swapdims", "mT", "numpy_T", "movedim", "moveaxis", "adjoint", "mH",
       "matrix_H"});
  add(table, expand, {"expand", "expand_as", "broadcast_to"});
  add(table, repeat, {"repeat", "tile"});
}

void add_tables(Table& table) {
  add(table, table_rule,
      {"roll",
       "flip",
       "rot90",
       "slice",
       "narrow",
       "cat",
       "concat",
       "concatenate",
       "stack",
       "select",
       "select_scatter",
       "slice_scatter",
       "unbind",
       "chunk",
       "unsafe_chunk",
       "split",
       "unsafe_split",
       "split_with_sizes",
       "unsafe_split_with_sizes",
       "pad",
       "constant_pad_nd",
       "reflection_pad1d",
       "reflection_pad2d",
       "reflection_pad3d",
       "replication_pad1d",
       "replication_pad2d",
       "replication_pad3d"});
}

void add_windows(Table& table) {
  add(table, grid_sample, {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"});
  add(table, keep_planes,
      {"max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d",
       "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"});
  add(table, window_rule,
      {"conv1d",
       "conv2d",
       "conv3d",
       "conv_transpose1d",
       "conv_transpose2d",
       "conv_transpose3d",
       "convolution",
       "avg_pool1d",
       "avg_pool2d",
       "avg_pool3d",
       "max_pool1d",
       "max_pool2d",
       "max_pool3d",
       "adaptive_avg_pool1d",
       "adaptive_avg_pool2d",
       "adaptive_avg_pool3d",
       "_adaptive_avg_pool2d",
       "_adaptive_avg_pool3d",
       "upsample_nearest1d",
       "upsample_nearest2d",
       "upsample_nearest3d",
       "_upsample_nearest_exact1d",
       "_upsample_nearest_exact2d",
       "_upsample_nearest_exact3d",
       "upsample_linear1d",
       "upsample_bilinear2d",
       "upsample_trilinear3d",
       "upsample_bicubic2d"});
}

void add_sums(Table& table) {
  add(table, reduction, {"sum",      "mean",     "var",          "std",    "amax",    "amin",   "linalg_vector_norm",
                         "var_mean", "std_mean", "logsumexp",    "all",    "any",     "prod",   "max",
                         "min",      "argmax",   "argmin",       "nansum", "nanmean", "median", "nanmedian",
                         "kthvalue", "mode",     "count_nonzero"});
  add(table, layer_norm, {"layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"});
  add(table, group_norm, {"group_norm", "native_group_norm", "instance_norm"});
  add(table, batch_norm,
      {"batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
       "_native_batch_norm_legit_no_training"});
  add(table, along_axis,
      {"softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax", "cumsum", "cumprod", "cummax", "cummin",
       "logcumsumexp", "glu", "sort", "argsort", "topk", "diff"});
  add(table, product_rule,
      {"einsum", "linear", "addmm", "baddbmm", "matmul", "linalg_matmul", "bmm", "mm", "mv", "tensordot",
       "scaled_dot_product_attention"});
  add(table, fourier,
      {"fft_fft", "fft_fft2", "fft_fftn", "fft_ifft", "fft_ifft2", "fft_ifftn", "fft_rfft", "fft_rfft2", "fft_rfftn",
       "fft_irfft", "fft_irfft2", "fft_irfftn", "_fft_c2c", "_fft_c2r", "_fft_r2c"});
}

void add_others(Table& table) {
  add(table, drop_other, {"type_as"});
  add(table, prelu, {"prelu"});
  add(table, gather, {"gather", "take_along_dim", "scatter", "scatter_add"});
  add(table, made_anywhere,
      {"zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "zeros_like", "ones_like",
       "full_like", "empty_like", "arange", "linspace", "scalar_tensor", "eye"});
  add(table, drawn, {"rand", "randn", "rand_like", "randn_like", "bernoulli", "uniform", "normal_functional"});
  add(table, put, {"index_put"});
  add(table, over_the_sphere, {"_disco_s2_contraction_optimized", "_disco_s2_transpose_contraction_optimized"});
  add(table, attention_on_the_sphere, {"_neighborhood_s2_attention_optimized"});
  add(table, reordered, {"permute_to_nhwc", "permute_to_nchw"});
  add(table, lookup, {"index", "index_select", "embedding"});
}

// The rule of every operator that is not local; local ones are `elementwise` unless they stand here.
Table const& table() {
  static Table const rules = [] {
    Table filled;
    add_views(filled);
    add_tables(filled);
    add_windows(filled);
    add_sums(filled);
    add_others(filled);
    return filled;
  }();
  return rules;
}

// Sizes of a result are those that the file says; tables and windows come from the arguments.
void check_extents(NodeShapes const& shapes) {
  for (std::size_t axis = 0; axis < shapes.rule.axes.size() && axis < shapes.out().size(); ++axis) {
    AxisRule const& rule = shapes.rule.axes[axis];
    auto const found = static_cast<std::int64_t>(rule.mode == RunMode::table ? rule.table.size() : rule.windows.size());
    bool const in_rows = rule.mode == RunMode::table || rule.mode == RunMode::window;
    if (in_rows && found < shapes.out()[axis]) {
      shapes.refuse("its arguments give " + std::to_string(found) + " indices along axis " + std::to_string(axis) +
                    ", its result has " + std::to_string(shapes.out()[axis]) + "; export the network again");
    }
  }
}

}  // namespace

void apply_rule(NodeShapes& shapes) {
  auto const found = table().find(shapes.operator_name());
  if (found != table().end()) {
    found->second(shapes);
    check_extents(shapes);
    return;
  }
  // Without a rule no axis may be cut: every rank runs the operator on the whole.
  if (operator_class(shapes.node().target) == OperatorClass::local) {
    elementwise(shapes);
  }
}

}  // namespace detail

std::optional<NodeRule> node_rule(Graph const& graph, Node const& node, Sizes const& sizes) {
  detail::NodeShapes shapes(graph, node, sizes);
  if (shapes.rule.results.empty()) {
    return std::nullopt;
  }
  detail::apply_rule(shapes);
  return std::move(shapes.rule);
}

}  // namespace graticule::program
