// SPDX-License-Identifier: BSD-3-Clause
// A small model with units, and its training on one rank and on cut parameters.
#pragma once

#include <graticule/nn_bridge/call/layer.hpp>
#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/training/detail/shard_rule.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include "larger.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace graticule::test {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width)
      : enter(register_module("enter", torch::nn::Linear(width, 3 * width))),
        leave(register_module("leave", torch::nn::Linear(3 * width, width))) {}
  torch::Tensor forward(torch::Tensor const& x) { return x + leave(torch::tanh(enter(x))); }
  torch::nn::Linear enter;
  torch::nn::Linear leave;
};
TORCH_MODULE(Block);

/// An embedding, whose input takes no gradient, two blocks of which the first runs twice, a frozen layer, and
/// parameters of the model itself: one without axes, one with fewer rows than ranks, and the embedding's own weight
/// when it is tied.
struct ShardedNetImpl : torch::nn::Module {
  explicit ShardedNetImpl(std::int64_t width = 6, std::int64_t num_words = 7)
      : words(register_module("words", nn::Layer<torch::nn::Embedding>(num_words, width))),
        first(register_module("first", nn::Unit<Block>(width))),
        layers(register_module("layers", torch::nn::Sequential(nn::Unit<Block>(width), torch::nn::Tanh(),
                                                               nn::Unit<torch::nn::Linear>(width, width)))),
        head(register_module("head", torch::nn::Linear(width, 2))) {
    to(torch::kDouble);
    gain = register_parameter("gain", torch::tensor(1.5, torch::kDouble));
    for (auto& parameter : layers[2]->parameters()) parameter.set_requires_grad(false);
  }
  torch::Tensor forward(torch::Tensor const& x) {
    return head(layers->forward(first(torch::relu(first(words(x)))))) * gain;
  }
  nn::Layer<torch::nn::Embedding> words;
  nn::Unit<Block> first;
  torch::nn::Sequential layers;
  torch::nn::Linear head;
  torch::Tensor gain;
};
TORCH_MODULE(ShardedNet);

/// The same values on all ranks and in all calls.
inline ShardedNet make_net(std::int64_t width = 6) {
  torch::manual_seed(11);
  return ShardedNet(width);
}

struct Batch {
  torch::Tensor x;
  torch::Tensor y;
  /// Samples [begin, end) of those.
  [[nodiscard]] Batch part(std::int64_t begin, std::int64_t end) const {
    return {x.slice(0, begin, end), y.slice(0, begin, end)};
  }
};

inline Batch make_batch(int step, std::int64_t num_samples = 12) {
  torch::manual_seed(1000 + step);
  return {torch::randint(7, {num_samples}), torch::randn({num_samples, 2}, torch::kDouble)};
}

/// This rank's samples: the first rank has one more than its share where there are more ranks than one.
inline Batch uneven_part(Batch const& whole, Comm const& comm) {
  auto const num = whole.x.size(0);
  auto const cut = [&](int rank) {
    return rank == 0 ? 0 : std::min<std::int64_t>(num, num * rank / comm.num_ranks() + 1);
  };
  return whole.part(cut(comm.rank()), comm.rank() + 1 == comm.num_ranks() ? num : cut(comm.rank() + 1));
}
inline Batch even_part(Batch const& whole, Comm const& comm) {
  auto const num = whole.x.size(0) / comm.num_ranks();
  return whole.part(comm.rank() * num, (comm.rank() + 1) * num);
}

/// Largest difference among tensors of the same names, 0 for equal bits.
inline double difference(nn::NamedTensors const& a, nn::NamedTensors const& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].second.sizes(), b[i].second.sizes()) << a[i].first;
    if (a[i].second.numel() > 0 && a[i].second.sizes() == b[i].second.sizes())
      largest = larger(largest, (a[i].second - b[i].second).abs().max().item<double>());
  }
  return largest;
}

/// Those that are defined.
inline nn::NamedTensors gradients_of(nn::NamedTensors const& parameters) {
  nn::NamedTensors gradients;
  for (auto const& [name, tensor] : parameters)
    if (tensor.grad().defined()) gradients.emplace_back(name, tensor.grad());
  return gradients;
}

/// Copies of the whole parameters.
inline nn::NamedTensors whole_parameters(training::ShardedParameters& sharded, torch::nn::Module const& model) {
  auto const whole = sharded.gathered();
  nn::NamedTensors result;
  for (auto const& [name, tensor] : nn::parameters_of(model)) result.emplace_back(name, tensor.detach().clone());
  return result;
}

/// This rank's rows of whole tensors.
inline nn::NamedTensors rows_of(nn::NamedTensors const& whole, Comm const& comm) {
  nn::NamedTensors result;
  for (auto const& [name, tensor] : whole) {
    auto const rows =
        training::detail::shard_rows(training::detail::num_rows_of(tensor), comm.num_ranks(), comm.rank());
    if (tensor.dim() > 0)
      result.emplace_back(name, tensor.narrow(0, rows.lo, rows.size()));
    else
      result.emplace_back(name, comm.rank() == 0 ? tensor : tensor.new_empty({0}));
  }
  return result;
}

}  // namespace graticule::test
