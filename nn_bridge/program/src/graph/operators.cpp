// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/check_operators.hpp>
#include <graticule/program/detail/operators.hpp>

#include "words.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <variant>

namespace graticule::program {

namespace {

using detail::one_of;
using Table = std::unordered_map<std::string_view, OperatorClass>;

// Names are words of one text.
void add(Table& table, OperatorClass kind, std::string_view names) {
  while (!names.empty()) {
    auto const end = std::min(names.find(' '), names.size());
    table.emplace(names.substr(0, end), kind);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

void add_local(Table& table) {
  add(table, OperatorClass::local,
      "__and__ __lshift__ __or__ __rshift__ __xor__ "
      "abs absolute acos acosh add addcdiv addcmul alias angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
      "asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
      "bitwise_xor bernoulli ceil celu clamp clamp_max clamp_min clip clone complex _conj conj _conj_physical "
      "conj_physical "
      "contiguous copy copysign cos cosh deg2rad detach digamma div divide dropout elu elu_backward eq erf erfc erfinv "
      "exp exp2 "
      "expm1 fill fix float_power floor floor_divide fmax fmin fmod frac frexp gcd ge gelu gelu_backward glu greater "
      "greater_equal "
      "gt "
      "hardshrink hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh hardtanh_backward heaviside "
      "hypot i0 igamma igammac imag isclose isfinite isinf "
      "isnan isneginf isposinf isreal lcm ldexp le leaky_relu leaky_relu_backward lerp less less_equal lgamma "
      "lift_fresh "
      "lift_fresh_copy log log10 log1p log2 log_sigmoid logaddexp logaddexp2 logical_and logical_not logical_or "
      "logical_xor logit lt masked_fill maximum minimum mish mul multiply mvlgamma nan_to_num native_dropout "
      "native_dropout_backward ne neg "
      "_neg_view negative nextafter normal_functional not_equal polar polygamma positive pow prelu _prelu_kernel "
      "rad2deg real "
      "reciprocal relu relu6 remainder resolve_conj resolve_neg round rsqrt rsub selu sgn sigmoid sigmoid_backward "
      "sign signbit silu "
      "silu_backward "
      "sin sinc sinh softplus softplus_backward softshrink special_airy_ai special_bessel_j0 "
      "special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t "
      "special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_digamma "
      "special_entr special_erf special_erfc special_erfcx "
      "special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln "
      "special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1 special_i1e "
      "special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p special_log_ndtr special_logit "
      "special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 "
      "special_ndtr special_ndtri special_polygamma special_psi special_round special_scaled_modified_bessel_k0 "
      "special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u "
      "special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_sinc "
      "special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta sqrt "
      "square sub subtract tan tanh tanh_backward threshold threshold_backward to _to_copy true_divide trunc type_as "
      "uniform view_as_complex "
      "view_as_real "
      "where xlogy zero");
}

void add_views(Table& table) {
  add(table, OperatorClass::view,
      "adjoint atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to chunk diagonal dsplit expand "
      "expand_as flatten hsplit matrix_H mH mT moveaxis movedim narrow numpy_T permute ravel reshape reshape_as select "
      "slice "
      "split split_with_sizes squeeze swapaxes swapdims t tensor_split transpose unbind unflatten unsafe_chunk "
      "unsafe_split unsafe_split_with_sizes _unsafe_view unsqueeze view view_as vsplit");
}

void add_stencils(Table& table) {
  add(table, OperatorClass::stencil,
      "adaptive_avg_pool1d _adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool3d "
      "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d block_diag cat "
      "channel_shuffle _chunk_cat col2im column_stack concat concatenate constant_pad_nd conv1d conv2d conv3d conv_tbc "
      "conv_transpose1d conv_transpose2d conv_transpose3d _convolution convolution cumulative_trapezoid diag "
      "diag_embed diagflat diagonal_scatter diff dstack flip fliplr flipud fractional_max_pool2d fractional_max_pool3d "
      "hstack im2col max_pool1d "
      "max_pool1d_with_indices max_pool2d "
      "max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d max_pool3d_with_indices max_unpool2d "
      "max_unpool3d native_channel_shuffle "
      "gradient pad pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d reflection_pad3d repeat "
      "repeat_interleave replication_pad1d replication_pad2d replication_pad3d roll rot90 row_stack select_scatter "
      "slice_scatter stack tile trapezoid trapz tril triu unfold upsample_bicubic2d _upsample_bicubic2d_aa "
      "upsample_bilinear2d _upsample_bilinear2d_aa upsample_linear1d upsample_nearest1d upsample_nearest2d "
      "upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
      "upsample_trilinear3d vstack");
}

void add_sums(Table& table) {
  add(table, OperatorClass::statistic,
      "all amax amin aminmax any argmax argmin argsort batch_norm _batch_norm_with_update_functional "
      "binary_cross_entropy "
      "binary_cross_entropy_with_logits cdist _cdist_forward corrcoef cosine_embedding_loss cosine_similarity "
      "count_nonzero cov cross_entropy_loss cummax cummin cumprod cumsum dist _euclidean_dist frobenius_norm "
      "_fused_rms_norm group_norm huber_loss instance_norm kl_div kthvalue l1_loss layer_norm linalg_matrix_norm "
      "linalg_norm linalg_vector_norm _log_softmax _log_softmax_backward_data log_softmax logcumsumexp logsumexp "
      "margin_ranking_loss max mean "
      "median min mode mse_loss msort multilabel_margin_loss_forward multilabel_margin_loss hinge_embedding_loss "
      "multi_margin_loss nanmean nanmedian nanquantile "
      "nansum native_batch_norm "
      "_native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training "
      "native_group_norm native_layer_norm nll_loss nll_loss2d nll_loss_nd norm norm_except_dim pairwise_distance "
      "pdist poisson_nll_loss prod quantile renorm rms_norm _safe_softmax segment_reduce smooth_l1_loss "
      "soft_margin_loss _softmax "
      "_softmax_backward_data softmax sort std std_mean sum sum_to_size topk trace triplet_margin_loss var var_mean "
      "_weight_norm "
      "_weight_norm_interface");
  add(table, OperatorClass::contraction,
      "addbmm addmm addmv addr baddbmm bilinear bmm chain_matmul cholesky cholesky_inverse cholesky_solve cross det "
      "dot "
      "einsum ger gru inner inverse kron linalg_cholesky linalg_cholesky_ex linalg_cross _linalg_det linalg_det "
      "linalg_eig _linalg_eigh linalg_eigh linalg_eigvals _linalg_eigvals linalg_eigvalsh linalg_householder_product "
      "linalg_inv linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor "
      "linalg_lu_factor_ex linalg_lu_solve lu_solve _lu_with_info linalg_cond linalg_ldl_factor linalg_matrix_rank "
      "linalg_tensorinv linalg_tensorsolve "
      "linalg_vander pinverse svd linalg_matmul linalg_matrix_exp linalg_matrix_power linalg_multi_dot "
      "linalg_pinv linalg_qr _linalg_slogdet linalg_slogdet linalg_solve _linalg_solve_ex linalg_solve_ex "
      "linalg_solve_triangular _linalg_svd linalg_svd linalg_svdvals linalg_vecdot linear logdet lstm lu_unpack matmul "
      "matrix_exp matrix_power mm mv ormqr outer qr rnn_relu rnn_tanh scaled_dot_product_attention tensordot "
      "triangular_solve vander vdot");
  add(table, OperatorClass::spectral,
      "_fft_c2c _fft_c2r fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft "
      "fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn _fft_r2c "
      "fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn istft stft");
}

void add_others(Table& table) {
  add(table, OperatorClass::table,
      "bucketize embedding embedding_bag gather grid_sampler grid_sampler_2d grid_sampler_3d index index_add "
      "index_copy "
      "index_fill index_put index_reduce index_select isin masked_scatter one_hot put scatter scatter_add "
      "scatter_reduce searchsorted take take_along_dim _unsafe_index _unsafe_index_put "
      "_unsafe_masked_index _unsafe_masked_index_put_accumulate");
  add(table, OperatorClass::factory,
      "affine_grid_generator arange bartlett_window blackman_window cartesian_prod empty empty_like empty_permuted "
      "empty_strided eye full full_like "
      "hamming_window hann_window kaiser_window linspace logspace meshgrid new_empty new_empty_strided new_full "
      "new_ones new_zeros ones ones_like rand "
      "rand_like randn randn_like range "
      "scalar_tensor tril_indices triu_indices zeros zeros_like");
  add(table, OperatorClass::number, "sym_numel sym_size");
  add(table, OperatorClass::check, "_assert_tensor_metadata _linalg_check_errors");
}

Table const& operators() {
  static Table const table = [] {
    Table filled;
    add_local(filled);
    add_views(filled);
    add_stencils(filled);
    add_sums(filled);
    add_others(filled);
    return filled;
  }();
  return table;
}

// Operators of packages that register them with LibTorch, with their gradients: those of torch-harmonics 0.9.
std::optional<OperatorClass> of_other_library(std::string_view target) {
  std::string_view const name = target.substr(0, std::min(target.rfind('.'), target.size()));
  if (one_of(name, {"disco_kernels._disco_s2_contraction_optimized",
                    "disco_kernels._disco_s2_transpose_contraction_optimized",
                    "attention_kernels._neighborhood_s2_attention_optimized"})) {
    return OperatorClass::contraction;
  }
  if (one_of(name, {"attention_kernels.permute_to_nchw", "attention_kernels.permute_to_nhwc"})) {
    return OperatorClass::stencil;
  }
  return std::nullopt;
}

bool arithmetic(std::string_view target) {
  return one_of(target, {"_operator.add",   "_operator.sub", "_operator.mul", "_operator.floordiv", "_operator.mod",
                         "_operator.neg",   "_operator.pow", "_operator.eq",  "_operator.ne",       "_operator.lt",
                         "_operator.le",    "_operator.gt",  "_operator.ge",  "_operator.truediv",  "_operator.and_",
                         "_operator.or_",   "math.ceil",     "math.floor",    "math.trunc",         "round",
                         "torch.sym_float", "torch.sym_int", "torch.sym_max", "torch.sym_min",      "torch.sym_not",
                         "torch.sym_ite",   "torch.sym_sum"});
}

// "roll" of "aten.roll.default", "add_" of "aten.add_.Tensor"; nothing for a target of another form.
std::string_view base_name(std::string_view target) {
  auto const first = target.find('.');
  auto const second = first == std::string_view::npos ? first : target.find('.', first + 1);
  return second == std::string_view::npos ? std::string_view() : target.substr(first + 1, second - first - 1);
}

// Without the mark of operators in place and of copies of views ("permute_copy"), which no other name ends with.
std::string_view plain_name(std::string_view base) {
  constexpr std::string_view copy = "_copy";
  auto const is_view = [](std::string_view name) {
    auto const found = operators().find(name);
    return found != operators().end() &&
           (found->second == OperatorClass::view ||
            one_of(name, {"alias", "detach", "view_as_complex", "view_as_real", "unfold"}));
  };
  if (operators().contains(base)) {
    return base;
  }
  if (base.ends_with(copy) && is_view(base.substr(0, base.size() - copy.size()))) {
    return base.substr(0, base.size() - copy.size());
  }
  return base.size() > 1 && base.ends_with('_') ? base.substr(0, base.size() - 1) : base;
}

std::string reason(std::string_view target) {
  std::string_view base = base_name(target);
  base = base.size() > 1 && base.ends_with('_') ? base.substr(0, base.size() - 1) : base;
  if (target.starts_with("higher_order.")) {
    return "control flow and other operators on graphs are not run; write the network without them, or export the "
           "branch that is used";
  }
  if (target.starts_with("torch_nn._linear_cross_entropy")) {
    return "the loss in chunks is not run; call torch.nn.functional.cross_entropy of torch.nn.functional.linear";
  }
  if (!target.starts_with("aten.")) {
    return "it is no operator of PyTorch itself; replace the module by one of PyTorch's layers before the export";
  }
  if (one_of(base,
             {"nonzero", "item", "_local_scalar_dense", "masked_select", "unique", "_unique2", "unique_dim", "bincount",
              "_assert_async", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size"})) {
    return "shapes or branches that depend on data are not run; compute masks by torch.where, and remove assertions on "
           "values";
  }
  if (base.starts_with("as_strided") || base.starts_with("resize")) {
    return "it addresses the memory of a tensor, of which a rank has a part; take cells by slices, reshape or unfold";
  }
  if (base.starts_with("rand") ||
      one_of(base, {"bernoulli", "multinomial", "normal", "uniform", "exponential", "poisson", "alpha_dropout",
                    "feature_dropout", "feature_alpha_dropout", "rrelu", "rrelu_with_noise"})) {
    return "of the random operators dropout, bernoulli, rand, randn, uniform and normal are run; give other noise as "
           "an input "
           "of the network";
  }
  return "it has no rule here (docs/programs.md lists the operators that have one): compute it from those, or outside "
         "of "
         "the network; a file may have it for lack of run_decompositions({})";
}

[[noreturn]] void refuse(Node const& node, std::string const& why) {
  throw Error(Fault::input, "RefusedProgram", "refused: " + node.describe() + ": " + why);
}

// index.Tensor by a mask has as many results as the mask has ones.
void check_index(Graph const& graph, Node const& node) {
  Argument const* const indices = node.input("indices");
  auto const* const tensors = indices == nullptr ? nullptr : std::get_if<OptionalTensors>(indices);
  if (tensors == nullptr) {
    return;
  }
  for (auto const& tensor : *tensors) {
    if (tensor && one_of(name(graph.value(tensor->value).tensor.dtype), {"boolean", "u8"})) {
      refuse(node, "an index by a mask has a shape that depends on data; use torch.where");
    }
  }
}

void check_graph(Graph const& graph) {
  for (Node const& node : graph.nodes) {
    auto const kind = operator_class(node.target);
    if (!kind) {
      refuse(node, reason(node.target));
    }
    if (node.target == "aten.index.Tensor") {
      check_index(graph, node);
    }
    for (NamedArgument const& input : node.inputs) {
      if (auto const* unsupported = std::get_if<Unsupported>(&input.value)) {
        refuse(node, "the argument '" + input.name + "' is of the kind '" + unsupported->kind + "'");
      }
      if (auto const* subgraph = std::get_if<SubgraphRef>(&input.value)) {
        if (kind != OperatorClass::subgraph) {
          refuse(node, "it takes a graph as argument '" + input.name + "'");
        }
        check_graph(*subgraph->graph);
      }
    }
  }
}

}  // namespace

std::string_view name(OperatorClass kind) {
  switch (kind) {
    case OperatorClass::local: return "local";
    case OperatorClass::view: return "view";
    case OperatorClass::stencil: return "stencil";
    case OperatorClass::statistic: return "statistic";
    case OperatorClass::contraction: return "contraction";
    case OperatorClass::spectral: return "spectral";
    case OperatorClass::table: return "table";
    case OperatorClass::factory: return "factory";
    case OperatorClass::number: return "number";
    case OperatorClass::check: return "check";
    case OperatorClass::subgraph: return "subgraph";
  }
  return "unknown";
}

std::optional<OperatorClass> operator_class(std::string_view target) {
  if (target == "higher_order.wrap_with_autocast" || target == "higher_order.wrap_with_set_grad_enabled") {
    return OperatorClass::subgraph;
  }
  if (arithmetic(target)) {
    return OperatorClass::number;
  }
  if (!target.starts_with("aten.")) {
    return of_other_library(target);
  }
  std::string_view const base = base_name(target);
  auto const found = operators().find(base.empty() ? base : plain_name(base));
  return found == operators().end() ? std::nullopt : std::optional(found->second);
}

std::string_view detail::operator_name(std::string_view target) {
  std::string_view const base = base_name(target);
  return base.empty() ? target : plain_name(base);
}

void detail::check_operators(ExportedGraph const& program) {
  check_graph(program.graph);
  for (OutputSpec const& output : program.outputs) {
    if (output.kind == OutputSpec::Kind::parameter_mutation) {
      throw Error(
          Fault::input, "RefusedProgram",
          "refused: the program overwrites the parameter '" + output.name + "'; make it a buffer before the export");
    }
  }
}

}  // namespace graticule::program
