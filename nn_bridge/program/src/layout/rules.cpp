// SPDX-License-Identifier: BSD-3-Clause
#include "graph/nodes.hpp"
#include "node_shapes.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <variant>

namespace graticule::program {

namespace detail {

namespace {

// Each cell by itself, smaller tensors repeated.
void elementwise(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    shapes.cut_alike(axis, broadcast_axes(shapes, axis));
  }
}

// The axes stand at the same places, but one axis is new, gone or of another kind.
void keep_leading(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < std::min(std::ssize(shapes.in()), shapes.ndim()); ++axis) {
    if (shapes.in()[index(axis)] == shapes.out()[index(axis)]) {
      shapes.cut_alike(axis, shapes.of_all(axis));
    }
  }
}

// Of the other tensors only the shape counts.
void drop_tensors(NodeShapes& shapes, std::size_t kept) {
  shapes.rule.tensors.resize(std::min(kept, shapes.rule.tensors.size()));
  shapes.rule.shapes.resize(shapes.rule.tensors.size());
}

// Of the other tensor only the shape or the type counts.
void first_alone(NodeShapes& shapes) {
  drop_tensors(shapes, 1);
  elementwise(shapes);
}

// One slope per channel, axis 1, or one for all.
void prelu(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    shapes.cut_alike(axis, {axis, axis == 1 && num_elements(shapes.in(1)) > 1 ? 0 : -1});
  }
}

// Copies of the whole, one after the other: axes with one copy stay.
void repeat(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    std::int64_t const own = axis - shapes.ndim() + std::ssize(shapes.in());
    if (own >= 0 && shapes.in()[index(own)] == shapes.out()[index(axis)]) {
      shapes.cut_alike(axis, {own});
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
    bool const alike = std::ranges::all_of(shapes.rule.shapes, [&](Shape const& shape) {
      return shape.size() == shapes.out().size() && (axis == along || shape[index(axis)] == shapes.out()[index(axis)]);
    });
    if (alike && axis != along) {
      shapes.cut_alike(axis, shapes.of_all(axis));
    } else if (alike && !shapes.operator_name().starts_with("scatter")) {
      shapes.cut_alike(axis, {-1, axis});
    }
  }
}

// Cells of the whole tensor at the places that the grid [batch, rows, columns, 2] names.
void grid_sample(NodeShapes& shapes) {
  shapes.cut_alike(0, {0, 0});
  shapes.cut_alike(1, {1, -1});
  for (std::int64_t axis = 2; axis < shapes.ndim(); ++axis) {
    shapes.cut_alike(axis, {-1, axis - 1});
  }
  shapes.rule.operations = 16;
}

// The first axes, which are no rows or columns, can be cut.
void keep_planes(NodeShapes& shapes) {
  std::int64_t const spatial = shapes.operator_name().find("3d") != std::string_view::npos ? 3 : 2;
  for (std::int64_t axis = 0; axis + spatial < shapes.ndim(); ++axis) {
    shapes.cut_alike(axis, shapes.of_all(axis));
  }
}

void view(NodeShapes& shapes) {
  drop_tensors(shapes, 1);
  if (shapes.has("dtype")) {  // the same bits as another type
    keep_leading(shapes);
    return;
  }
  shapes.rule.view = true;
  std::ranges::fill(shapes.rule.axes, AxisRule{RunMode::same, {}, {}, {}});
}

// Named axes at their places, the others in order between them.
std::vector<std::int64_t> moved_order(NodeShapes const& shapes) {
  auto const from = shapes.axes("source", shapes.ndim());
  auto const to = shapes.axes("destination", shapes.ndim());
  std::vector<std::int64_t> order(shapes.out().size(), -1);
  for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
    order[index(to[i])] = from[i];
  }
  std::vector<std::int64_t> others;
  std::ranges::copy_if(numbers_below(shapes.ndim()), std::back_inserter(others),
                       [&](std::int64_t axis) { return std::ranges::find(from, axis) == from.end(); });
  if (std::ranges::count(order, -1) != std::ssize(others)) {
    shapes.refuse("an axis is named twice; name each once");
  }
  auto next = others.begin();
  for (std::int64_t& axis : order) {
    axis = axis < 0 ? *next++ : axis;
  }
  return order;
}

void permute(NodeShapes& shapes) {
  std::int64_t const ndim = shapes.ndim();
  auto order = numbers_below(ndim);
  std::string_view const name = shapes.operator_name();
  auto const exchange = [&](std::int64_t a, std::int64_t b) { std::swap(order.at(index(a)), order.at(index(b))); };
  if (name == "permute") {
    order = shapes.axes("dims", ndim, order);
  } else if (one_of(name, {"movedim", "moveaxis"})) {
    order = moved_order(shapes);
  } else if (one_of(name, {"transpose", "swapaxes", "swapdims"})) {
    exchange(shapes.axis(name == "swapaxes" ? "axis0" : "dim0", 0, ndim),
             shapes.axis(name == "swapaxes" ? "axis1" : "dim1", 0, ndim));
  } else if (ndim >= 2) {
    exchange(ndim - 2, ndim - 1);
  }
  for (std::size_t axis = 0; axis < order.size(); ++axis) {
    shapes.rule.axes[axis] = {RunMode::same, {order[axis]}, {}, {}};
  }
}

// Norms of norms; the number of values that are not zero is none.
bool adds_up(NodeShapes const& shapes) {
  return shapes.node().input("ord") == nullptr || real_input(shapes.node(), "ord", 0) > 0;
}

// Sums, means and extremes over axes, which the result lacks or keeps with extent 1.
void reduction(NodeShapes& shapes) {
  auto const over = reduced_axes(shapes);
  if (shapes.rule.tensors.size() != 1) {
    elementwise(shapes);  // the larger of two tensors
    return;
  }
  std::string_view const name = shapes.operator_name();
  bool const in_parts =
      one_of(name, {"sum", "mean"}) || (name == "linalg_vector_norm" && adds_up(shapes)) ||
      (shapes.real() && one_of(name, {"var", "std", "var_mean", "std_mean", "amax", "amin", "logsumexp"})) ||
      (shapes.real() && shapes.rule.results.size() == 1 && one_of(name, {"max", "min"}));
  std::int64_t result = 0;
  bool const kept = shapes.out().size() == shapes.in().size() && shapes.flag("keepdim", false);
  for (std::int64_t axis = 0; axis < std::ssize(shapes.in()); ++axis) {
    if (std::ranges::find(over, axis) == over.end()) {
      shapes.cut_alike(result++, {axis});
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
    shapes.cut_alike(axis, shapes.of_first(axis));
    shapes.at(axis).mode = lo <= axis && axis < hi ? RunMode::statistic : RunMode::same;
  }
  shapes.rule.statistics = 2 * statistics;
}

void layer_norm(NodeShapes& shapes) {
  auto const axes = std::ssize(shapes.integers("normalized_shape", 1, 1));
  std::int64_t const first = shapes.ndim() - axes;
  Shape const rows(shapes.out().begin(), shapes.out().begin() + first);
  norm_over(shapes, first, shapes.ndim(), num_elements(rows));
  if (shapes.operator_name() != "layer_norm") {
    std::fill(shapes.rule.axes.begin() + first, shapes.rule.axes.end(), AxisRule{});
    return;
  }
  for (std::int64_t axis = first; axis < shapes.ndim(); ++axis) {
    // Weights have the normalised axes themselves.
    auto& own = shapes.at(axis).axes;
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
    shapes.at(shapes.axis("dim", -1, shapes.ndim())) = {};
  }
}

void fourier(NodeShapes& shapes) {
  std::string_view const name = shapes.operator_name();
  std::int64_t const ndim = shapes.ndim();
  std::vector<std::int64_t> axes{ndim - 1};
  if (name.ends_with("2")) {
    axes = {ndim - 2, ndim - 1};
  } else if (name.ends_with("n")) {
    axes = numbers_below(ndim);
  }
  keep_leading(shapes);
  for (std::int64_t const axis : shapes.axes("dim", ndim, axes)) {
    shapes.at(axis) = {};
  }
  shapes.rule.operations = 16;
}

// Any cut does: every rank makes its own part.
void made_anywhere(NodeShapes& shapes) {
  drop_tensors(shapes, 0);
  std::ranges::fill(shapes.rule.axes, AxisRule{RunMode::same, {}, {}, {}});
}

// Numbers by their place in the whole: of another tensor the shape alone counts, or its values as probabilities.
void drawn(NodeShapes& shapes) {
  bool const probabilities = shapes.operator_name() == "bernoulli" && !shapes.has("p");
  probabilities || in_place(shapes.node().target) ? elementwise(shapes) : made_anywhere(shapes);
}

// The only axis that is indexed; nothing where there are more.
std::optional<std::int64_t> indexed_axis(NodeShapes const& shapes) {
  auto const* const some = std::get_if<OptionalTensors>(shapes.node().input("indices"));
  auto const* const all = std::get_if<Tensors>(shapes.node().input("indices"));
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
  auto const inner = std::max<std::int64_t>(std::ssize(shapes.in(1)), kept ? 1 : 0);
  for (std::int64_t a = 0; a < shapes.ndim(); ++a) {
    bool const in_table = *axis <= a && a < *axis + inner;
    std::int64_t const of_rows = a < *axis ? a : a - inner + 1;
    std::int64_t const of_table = shapes.in(1).empty() ? -1 : a - *axis;
    shapes.cut_alike(a, in_table ? std::vector{std::int64_t{-1}, of_table} : std::vector{of_rows, std::int64_t{-1}});
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
    if (a != *axis) {
      shapes.cut_alike(a, {a, -1, shapes.in(2)[index(a)] == shapes.out()[index(a)] ? a : -1});
    }
  }
}

// Vectors along one axis, which every rank needs whole.
void vector_product(NodeShapes& shapes) {
  elementwise(shapes);
  bool const unnamed = shapes.operator_name() == "cross" && !shapes.has("dim");
  shapes.at(unnamed ? unnamed_axis_of_cross(shapes) : shapes.axis("dim", -1, shapes.ndim())) = {};
}

// Numbers of two tensors over one axis, which the result lacks and every rank needs whole.
void over_one_axis(NodeShapes& shapes) {
  std::int64_t const otherwise = shapes.operator_name() == "cosine_similarity" ? 1 : -1;
  std::int64_t const over = shapes.axis("dim", otherwise, shapes.ndim() + 1);
  for (std::int64_t axis = 0; axis < shapes.ndim(); ++axis) {
    shapes.cut_alike(axis, broadcast_axes(shapes, axis, over));
  }
}

// Of torch-harmonics: the sphere is whole, samples and channels [batch, channels, ...] can be cut.
void over_the_sphere(NodeShapes& shapes) {
  for (std::int64_t axis = 0; axis < std::min<std::int64_t>(2, shapes.ndim()); ++axis) {
    shapes.cut_alike(axis, shapes.of_first(axis));
  }
  shapes.rule.operations = 32;
}

// Keys, values and queries [batch, rows, columns, channels]: samples can be cut.
void attention_on_the_sphere(NodeShapes& shapes) {
  auto axes = shapes.of_all(-1);
  std::fill_n(axes.begin(), std::min<std::size_t>(3, axes.size()), 0);
  shapes.cut_alike(0, std::move(axes));
  shapes.rule.operations = 64;
}

// Axes of [batch, channels, rows, columns] in another order.
void reordered(NodeShapes& shapes) {
  std::vector<std::int64_t> order{0, 2, 3, 1};
  if (shapes.operator_name() == "permute_to_nchw") {
    order = {0, 3, 1, 2};
  }
  for (std::size_t axis = 0; shapes.ndim() == 4 && axis < order.size(); ++axis) {
    shapes.cut_alike(static_cast<std::int64_t>(axis), {order[axis]});
  }
}

// Operators of one class and one rule. Names are words of one text.
struct OperatorRow {
  OperatorEntry entry;
  std::string_view names;
};

constexpr OperatorRow operator_rows[] = {
    {{OperatorClass::local, elementwise},
     "__and__ __lshift__ __or__ __rshift__ __xor__ abs absolute acos acosh add addcdiv addcmul alias angle "
     "arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh bitwise_and "
     "bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max "
     "clamp_min clip clone complex _conj conj _conj_physical conj_physical contiguous copy copysign cos cosh "
     "deg2rad detach digamma div divide dropout elu elu_backward eq erf erfc erfinv exp exp2 expm1 fill fix "
     "float_power floor floor_divide fmax fmin fmod frac frexp gcd ge gelu gelu_backward greater greater_equal "
     "gt hardshrink hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh hardtanh_backward "
     "heaviside hypot i0 igamma igammac imag isclose isfinite isinf isnan isneginf isposinf isreal lcm ldexp "
     "le leaky_relu leaky_relu_backward lerp less less_equal lgamma lift_fresh lift_fresh_copy log log10 log1p "
     "log2 log_sigmoid logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt "
     "masked_fill maximum minimum mish mul multiply mvlgamma nan_to_num native_dropout native_dropout_backward "
     "ne neg _neg_view negative nextafter not_equal polar polygamma positive pow _prelu_kernel rad2deg real "
     "reciprocal relu relu6 remainder resolve_conj resolve_neg round rsqrt rsub selu sgn sigmoid "
     "sigmoid_backward sign signbit silu silu_backward sin sinc sinh softplus softplus_backward softshrink "
     "special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 "
     "special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v "
     "special_chebyshev_polynomial_w special_digamma special_entr special_erf special_erfc special_erfcx "
     "special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc "
     "special_gammaln special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e "
     "special_i1 special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p "
     "special_log_ndtr special_logit special_modified_bessel_i0 special_modified_bessel_i1 "
     "special_modified_bessel_k0 special_modified_bessel_k1 special_ndtr special_ndtri special_polygamma "
     "special_psi special_round special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 "
     "special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u "
     "special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_sinc "
     "special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta sqrt square sub subtract tan tanh "
     "tanh_backward threshold threshold_backward to _to_copy true_divide trunc where xlogy zero"},
    {{OperatorClass::local, keep_leading}, "view_as_complex view_as_real"},
    {{OperatorClass::local, along_axis}, "glu"},
    {{OperatorClass::local, first_alone}, "type_as"},
    {{OperatorClass::local, prelu}, "prelu"},
    {{OperatorClass::local, drawn}, "bernoulli normal_functional uniform"},
    {{OperatorClass::view, view},
     "flatten ravel reshape reshape_as squeeze unflatten _unsafe_view unsqueeze view view_as"},
    {{OperatorClass::view, permute},
     "adjoint matrix_H mH mT moveaxis movedim numpy_T permute swapaxes swapdims t transpose"},
    {{OperatorClass::view, first_alone}, "broadcast_to expand expand_as"},
    {{OperatorClass::view, slice_rule}, "narrow slice"},
    {{OperatorClass::view, select_rule}, "select unbind"},
    {{OperatorClass::view, split_rule},
     "chunk split split_with_sizes unsafe_chunk unsafe_split unsafe_split_with_sizes"},
    {{OperatorClass::view, nullptr},
     "atleast_1d atleast_2d atleast_3d broadcast_tensors diagonal dsplit hsplit tensor_split vsplit"},
    {{OperatorClass::stencil, convolution_rule},
     "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution"},
    {{OperatorClass::stencil, pooling_rule},
     "adaptive_avg_pool1d _adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool3d "
     "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d"},
    {{OperatorClass::stencil, resizing_rule},
     "upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d "
     "upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
     "upsample_trilinear3d"},
    {{OperatorClass::stencil, keep_planes},
     "adaptive_max_pool2d adaptive_max_pool3d max_pool2d_with_indices max_pool3d_with_indices "
     "_upsample_bicubic2d_aa _upsample_bilinear2d_aa"},
    {{OperatorClass::stencil, cat_rule}, "cat concat concatenate"},
    {{OperatorClass::stencil, flip_rule}, "flip"},
    {{OperatorClass::stencil, pad_rule},
     "constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
     "replication_pad3d"},
    {{OperatorClass::stencil, roll_rule}, "roll"},
    {{OperatorClass::stencil, rot90_rule}, "rot90"},
    {{OperatorClass::stencil, scatter_rule}, "select_scatter slice_scatter"},
    {{OperatorClass::stencil, stack_rule}, "stack"},
    {{OperatorClass::stencil, repeat}, "repeat tile"},
    {{OperatorClass::stencil, along_axis}, "diff"},
    {{OperatorClass::stencil, nullptr},
     "adaptive_max_pool1d block_diag channel_shuffle _chunk_cat col2im column_stack conv_tbc _convolution "
     "convolution_backward "
     "cumulative_trapezoid diag diag_embed diagflat diagonal_scatter dstack fliplr flipud "
     "fractional_max_pool2d fractional_max_pool3d hstack im2col max_pool1d_with_indices "
     "max_pool2d_with_indices_backward max_unpool2d max_unpool3d native_channel_shuffle gradient pixel_shuffle "
     "pixel_unshuffle repeat_interleave row_stack trapezoid trapz tril triu unfold vstack"},
    {{OperatorClass::statistic, reduction},
     "all amax amin any argmax argmin count_nonzero kthvalue linalg_vector_norm logsumexp max mean median min "
     "mode nanmean nanmedian nansum prod std std_mean sum var var_mean"},
    {{OperatorClass::statistic, layer_norm}, "_fused_rms_norm layer_norm native_layer_norm rms_norm"},
    {{OperatorClass::statistic, group_norm}, "group_norm instance_norm native_group_norm"},
    {{OperatorClass::statistic, batch_norm},
     "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
     "_native_batch_norm_legit_no_training"},
    {{OperatorClass::statistic, along_axis},
     "argsort cummax cummin cumprod cumsum _log_softmax log_softmax logcumsumexp _safe_softmax _softmax "
     "softmax sort topk"},
    {{OperatorClass::statistic, over_one_axis}, "cosine_similarity"},
    {{OperatorClass::statistic, nullptr},
     "aminmax _batch_norm_with_update_functional binary_cross_entropy binary_cross_entropy_with_logits cdist "
     "_cdist_forward corrcoef cosine_embedding_loss cov cross_entropy_loss dist histc "
     "_euclidean_dist frobenius_norm huber_loss kl_div l1_loss linalg_matrix_norm linalg_norm "
     "_log_softmax_backward_data margin_ranking_loss mse_loss msort multilabel_margin_loss_forward "
     "multilabel_margin_loss hinge_embedding_loss multi_margin_loss nanquantile nll_loss nll_loss2d "
     "nll_loss_nd norm norm_except_dim pairwise_distance pdist poisson_nll_loss quantile renorm segment_reduce "
     "smooth_l1_loss soft_margin_loss _softmax_backward_data sum_to_size trace triplet_margin_loss "
     "_weight_norm _weight_norm_interface"},
    {{OperatorClass::contraction, addmm_rule}, "addmm"},
    {{OperatorClass::contraction, attention_rule}, "scaled_dot_product_attention"},
    {{OperatorClass::contraction, baddbmm_rule}, "baddbmm"},
    {{OperatorClass::contraction, einsum_rule}, "einsum"},
    {{OperatorClass::contraction, linear_rule}, "linear"},
    {{OperatorClass::contraction, matmul_rule}, "bmm linalg_matmul matmul mm mv"},
    {{OperatorClass::contraction, tensordot_rule}, "tensordot"},
    {{OperatorClass::contraction, nullptr},
     "addbmm addmv addr bilinear chain_matmul cholesky cholesky_inverse cholesky_solve det dot ger gru "
     "inner inverse kron linalg_cholesky linalg_cholesky_ex _linalg_det linalg_det linalg_eig "
     "_linalg_eigh linalg_eigh linalg_eigvals _linalg_eigvals linalg_eigvalsh linalg_householder_product "
     "linalg_inv linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor "
     "linalg_lu_factor_ex linalg_lu_solve lu_solve _lu_with_info linalg_cond linalg_ldl_factor "
     "linalg_matrix_rank linalg_tensorinv linalg_tensorsolve linalg_vander pinverse svd linalg_matrix_exp "
     "linalg_matrix_power linalg_multi_dot linalg_pinv linalg_qr _linalg_slogdet linalg_slogdet linalg_solve "
     "_linalg_solve_ex linalg_solve_ex linalg_solve_triangular _linalg_svd linalg_svd linalg_svdvals "
     "logdet lstm lu_unpack matrix_exp matrix_power ormqr outer qr rnn_relu rnn_tanh "
     "triangular_solve vander vdot"},
    {{OperatorClass::contraction, vector_product}, "cross linalg_cross"},
    {{OperatorClass::contraction, over_one_axis}, "linalg_vecdot"},
    {{OperatorClass::spectral, fourier},
     "_fft_c2c _fft_c2r fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_irfft fft_irfft2 fft_irfftn "
     "_fft_r2c fft_rfft fft_rfft2 fft_rfftn"},
    {{OperatorClass::spectral, nullptr},
     "fft_fftfreq fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn "
     "fft_rfftfreq istft stft"},
    {{OperatorClass::table, lookup}, "embedding index index_select"},
    {{OperatorClass::table, gather}, "gather scatter scatter_add take_along_dim"},
    {{OperatorClass::table, put}, "index_put"},
    {{OperatorClass::table, grid_sample}, "grid_sampler grid_sampler_2d grid_sampler_3d"},
    {{OperatorClass::table, nullptr},
     "bucketize embedding_bag index_add index_copy index_fill index_reduce isin masked_scatter one_hot put "
     "scatter_reduce searchsorted take _unsafe_index _unsafe_index_put _unsafe_masked_index "
     "_unsafe_masked_index_put_accumulate"},
    {{OperatorClass::factory, made_anywhere},
     "arange empty empty_like eye full full_like linspace new_empty new_full new_ones new_zeros ones ones_like "
     "scalar_tensor zeros zeros_like"},
    {{OperatorClass::factory, drawn}, "rand rand_like randn randn_like"},
    {{OperatorClass::factory, nullptr},
     "affine_grid_generator bartlett_window blackman_window cartesian_prod empty_permuted empty_strided "
     "hamming_window hann_window kaiser_window logspace meshgrid new_empty_strided range tril_indices "
     "triu_indices"},
    {{OperatorClass::number, nullptr}, "sym_numel sym_size"},
    {{OperatorClass::check, nullptr}, "_assert_tensor_metadata _linalg_check_errors"},
    // Of packages that register operators with LibTorch, with their gradients: torch-harmonics 0.9.
    {{OperatorClass::contraction, over_the_sphere},
     "disco_kernels._disco_s2_contraction_optimized disco_kernels._disco_s2_transpose_contraction_optimized"},
    {{OperatorClass::contraction, attention_on_the_sphere}, "attention_kernels._neighborhood_s2_attention_optimized"},
    {{OperatorClass::stencil, reordered}, "attention_kernels.permute_to_nchw attention_kernels.permute_to_nhwc"},
};

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

OperatorEntry const* find_entry(std::string_view name) {
  static auto const table = [] {
    std::unordered_map<std::string_view, OperatorEntry> filled;
    for (auto [entry, names] : operator_rows) {
      while (!names.empty()) {
        auto const end = std::min(names.find(' '), names.size());
        filled.emplace(names.substr(0, end), entry);
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    }
    return filled;
  }();
  auto const found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

void apply_rule(NodeShapes& shapes) {
  // Without a rule no axis may be cut: every rank runs the operator on the whole.
  if (auto const* const entry = find_operator(shapes.node().target); entry != nullptr && entry->rule != nullptr) {
    entry->rule(shapes);
    check_extents(shapes);
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
