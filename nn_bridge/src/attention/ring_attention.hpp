// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <memory>
#include <vector>

namespace graticule::nn::detail {

/// Number of tokens per rank.
struct RingTokens {
  Comm comm;
  std::vector<Index> counts;  ///< by rank
};

/// softmax(q k') v over the tokens of all ranks, for the queries of this one; all of [batch, heads, tokens, head_dim].
///
/// Keys and values circulate, one rank's at a time, and are merged on arrival (Milakov and Gimelshein, "Online
/// normalizer calculation for softmax", 2018; Liu et al., "Ring Attention with Blockwise Transformers", 2023): scores
/// are not stored; the memory is that of two ranks' keys and values and of one block of scores. In the backward keys
/// and values circulate again, together with their gradients, to which each rank adds in turn: a fixed order. 16-bit
/// types are accumulated in f32. Collective, as is its backward, which cannot be differentiated
/// (`Unsupported`).
/// @param anchor see `agreement.hpp`; the result is for `LayerState::record`
[[nodiscard]] torch::Tensor ring_attention(std::shared_ptr<RingTokens const> const& ring, torch::Tensor const& q,
                                           torch::Tensor const& k, torch::Tensor const& v, torch::Tensor const& anchor);

}  // namespace graticule::nn::detail
