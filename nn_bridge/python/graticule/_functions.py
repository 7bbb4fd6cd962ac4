# SPDX-License-Identifier: BSD-3-Clause
"""Functions of torch that are not planned on shards: those of a tensor itself, and those that draw random numbers."""
from __future__ import annotations

from typing import FrozenSet


def _words(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


DROPOUTS = _words("""
    dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout alpha_dropout_ feature_dropout feature_dropout_
    feature_alpha_dropout feature_alpha_dropout_""")
# What draws random numbers; of shards it is refused.
RANDOM = _words("""
    rand randn randint randperm normal bernoulli multinomial poisson binomial rand_like randn_like randint_like normal_ uniform_
    bernoulli_ random_ exponential_ cauchy_ geometric_ log_normal_ gumbel_softmax fractional_max_pool2d fractional_max_pool3d
    fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices kaiming_uniform_ native_dropout svd_lowrank pca_lowrank lobpcg
    lstm gru rnn_tanh rnn_relu _standard_gamma _sample_dirichlet _fused_dropout rrelu_with_noise rrelu_with_noise_""")
# Which of these draw for their dropout alone.
RECURRENT = _words("lstm gru rnn_tanh rnn_relu")
# Of the tensor, not of its cells.
PLAIN = _words("""
    __set__ __delete__ __repr__ __format__ __reduce_ex__ __setstate__ dim ndimension data_ptr const_data_ptr backward
    register_post_accumulate_grad_hook retain_grad is_floating_point is_complex is_signed is_conj is_neg is_inference is_pinned
    is_shared is_contiguous element_size get_device new_zeros new_ones new_empty new_full new_tensor result_type can_cast
    _is_view requires_grad_ share_memory_ record_stream""")
ATTRIBUTES = _words("""
    dtype device layout requires_grad grad_fn is_leaf ndim grad _grad is_cuda is_cpu is_xpu is_mps is_meta is_sparse is_sparse_csr
    is_quantized is_nested is_mkldnn is_ipu is_mtia is_maia is_xla is_vulkan is_hpu itemsize names output_nr _version retains_grad
    name _backward_hooks _post_accumulate_grad_hooks _base _cdata grad_dtype""")
