# SPDX-License-Identifier: BSD-3-Clause
"""What is known of torch's functions on shards. A function that is in none of these sets is refused by its name."""
from __future__ import annotations

from typing import FrozenSet


def _words(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


# Each cell by itself; also with "_" behind (in place), "special_" before, or as an operator.
_CELLWISE = _words("""
    abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2
    atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp
    clamp_max clamp_min clip complex conj conj_physical copysign cos cosh deg2rad digamma div divide elu eq erf erfc erfinv exp exp2
    expm1 fill fix float_power floor floor_divide fmax fmin fmod frac frexp gammainc gammaincc gammaln gcd ge gelu greater gt
    greater_equal hardshrink hardsigmoid hardswish hardtanh heaviside hypot i0 i0e i1 i1e igamma igammac imag isclose isfinite
    isinf isnan isneginf isposinf isreal lcm ldexp le leaky_relu lerp less less_equal lgamma log log10 log1p log2 log_ndtr
    log_sigmoid logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit logsigmoid lt masked_fill maximum minimum
    mish mul multiply mvlgamma nan_to_num ndtr ndtri ne neg negative nextafter not_equal polar polygamma positive pow prelu psi
    rad2deg real reciprocal relu relu6 remainder resolve_conj resolve_neg round rsqrt rsub selu sgn sigmoid sign
    signbit silu sin sinc sinh softplus softshrink softsign sqrt square sub subtract swish tan tanh tanhshrink threshold true_divide
    trunc where xlog1py xlogy zero zeta entr erfcx expit multigammaln""")
OPERATORS = _words("""
    add and div eq floordiv ge gt iadd iand idiv ifloordiv ilshift imod imul invert ior irshift isub ixor le lshift lt mod mul ne or
    radd rand rdiv rfloordiv rlshift rmod rmul ror rpow rrshift rshift rsub rxor sub truediv xor pow ipow neg abs""")
# Another tensor of the same cells.
_SAME = _words("""
    alias bfloat16 bool broadcast_tensors bucketize byte cdouble cfloat chalf char clone contiguous copy_ cpu cuda detach detach_
    double empty_like expand_as float full_like grad half int isin long ones_like pin_memory requires_grad_ searchsorted short to type
    type_as xpu zeros_like __deepcopy__ threshold_ _threshold as_subclass channel_shuffle native_channel_shuffle""")
# Losses without a reduction.
_LOSSES = _words("""
    l1_loss mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div poisson_nll_loss""")
CELLWISE = _CELLWISE | _SAME | _LOSSES

# Right along whole axes: along these alone they are let through, by their argument `dim`.
OF_AXES = _words("""
    softmax log_softmax softmin cumsum cumprod flip sort normalize mean sum std var prod norm amax amin max min argmax argmin median
    logsumexp nansum nanmean all any topk unbind chunk split roll cosine_similarity vector_norm argsort cummax cummin logcumsumexp
    var_mean std_mean quantile nanquantile nanmedian kthvalue mode aminmax count_nonzero diff gather index_select take_along_dim
    linalg_vector_norm glu""")
# Position of `dim` among the arguments, where it is not the second.
DIM_AT = {name: 2 for name in ("chunk", "split", "roll", "norm", "topk", "normalize", "vector_norm", "cosine_similarity", "quantile",
                               "nanquantile", "kthvalue", "diff", "take_along_dim", "linalg_vector_norm")}
DIM_DEFAULT = {"chunk": 0, "split": 0, "unbind": 0, "normalize": 1, "cosine_similarity": 1}
# Moved, removed, repeated or selected axes, which are found by a trial.
PARTS = _words("""
    unsqueeze unsqueeze_ select narrow tensor_split hsplit vsplit dsplit expand broadcast_to repeat tile repeat_interleave""")
JOINS = {"cat": 0, "concat": 0, "concatenate": 0, "stack": 0, "hstack": 1, "vstack": 0, "row_stack": 0, "dstack": 2}
DROPOUTS = _words("""
    dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout alpha_dropout_ feature_dropout feature_dropout_
    feature_alpha_dropout feature_alpha_dropout_""")
# What draws random numbers; of shards it is refused.
RANDOM = _words("""
    rand randn randint randperm normal bernoulli multinomial poisson binomial rand_like randn_like randint_like normal_ uniform_
    bernoulli_ random_ exponential_ cauchy_ geometric_ log_normal_ gumbel_softmax fractional_max_pool2d fractional_max_pool3d
    fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices kaiming_uniform_ native_dropout svd_lowrank pca_lowrank lobpcg
    lstm gru rnn_tanh rnn_relu _standard_gamma _sample_dirichlet _fused_dropout rrelu_with_noise rrelu_with_noise_""")
# Of the tensor, not of its cells.
PLAIN = _words("""
    __set__ __delete__ __repr__ __format__ __reduce_ex__ __setstate__ dim ndimension data_ptr const_data_ptr backward register_hook
    register_post_accumulate_grad_hook retain_grad is_floating_point is_complex is_signed is_conj is_neg is_inference is_pinned
    is_shared is_contiguous element_size get_device new_zeros new_ones new_empty new_full new_tensor result_type can_cast
    _is_view share_memory_ record_stream""")
ATTRIBUTES = _words("""
    dtype device layout requires_grad grad_fn is_leaf ndim grad _grad is_cuda is_cpu is_xpu is_mps is_meta is_sparse is_sparse_csr
    is_quantized is_nested is_mkldnn is_ipu is_mtia is_maia is_xla is_vulkan is_hpu itemsize names output_nr _version retains_grad
    name _backward_hooks _post_accumulate_grad_hooks _base _cdata grad_dtype""")
VIEWS = _words("data real imag")
# Their other tensors have no rows and columns.
WITH_PARAMETERS = _words("prelu linear embedding isin bucketize searchsorted index_select quantile nanquantile layer_norm rms_norm "
                         "matmul __matmul__ repeat_interleave")


def is_cellwise(name: str) -> bool:
    """Whether a function gives each cell of its result from the same cells of its arguments."""
    if name in CELLWISE:
        return True
    if name.startswith("__") and name.endswith("__"):
        return name[2:-2] in OPERATORS
    return name.removeprefix("special_") in CELLWISE or name.endswith("_") and name[:-1] in _CELLWISE
