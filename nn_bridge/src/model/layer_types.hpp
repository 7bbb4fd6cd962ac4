// SPDX-License-Identifier: BSD-3-Clause
// LibTorch's layers, classified by their effect on a field.
#pragma once

#include <torch/torch.h>

namespace graticule::nn::detail {

template <class... Types>
struct TypeList {};

template <class... Holders>
using Impls = TypeList<typename Holders::ContainedType...>;

template <class... Types>
bool is_any(torch::nn::Module const& module, TypeList<Types...> /*types*/) {
  return (dynamic_cast<Types const*>(&module) || ...);
}

/// Cell by cell.
using ElementwiseTypes =
    Impls<torch::nn::ELU, torch::nn::SELU, torch::nn::Hardshrink, torch::nn::Hardtanh, torch::nn::LeakyReLU,
          torch::nn::LogSigmoid, torch::nn::ReLU, torch::nn::ReLU6, torch::nn::CELU, torch::nn::GELU, torch::nn::SiLU,
          torch::nn::Mish, torch::nn::Sigmoid, torch::nn::Softplus, torch::nn::Softshrink, torch::nn::Softsign,
          torch::nn::Tanh, torch::nn::Tanhshrink, torch::nn::Threshold, torch::nn::Identity, torch::nn::Embedding>;

/// Across the channels of a cell.
using ChannelTypes =
    Impls<torch::nn::PReLU, torch::nn::Softmax2d, torch::nn::LocalResponseNorm, torch::nn::CrossMapLRN2d>;

}  // namespace graticule::nn::detail
